"""Numbers and units of Nsight Compute: decimal signs of any locale, `n/a`, values of instances; base units."""

from __future__ import annotations

import re
from functools import cache

import polars as pl

# Prefixes of units, which Nsight Compute means as powers of 1,000: 5.12 Kbyte are 5,120 bytes.
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
# Times are ns. The names are those of versions until 2022 and since.
_TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_TIMES |= {"nsecond": 1.0, "usecond": 1e3, "msecond": 1e6, "second": 1e9}
# A clock of `1 cycle/nsecond` is one of 1 Ghz.
_PER_SECOND = {name: 1e9 / ns for name, ns in _TIMES.items()}
_PREFIXED = re.compile(r"([KMGTP]?)([a-z%]+)")
# Texts that show the decimal sign: it has more or less than three digits behind it, or a lone 0 before it, or the other
# sign stands between thousands. `1,234` alone shows nothing.
_DECIMAL = (
    r"^-?\d+[{point}](?:\d{{1,2}}|\d{{4,}})$|^-?0[{point}]\d+$"
    r"|^-?\d{{1,3}}(?:[{group}]\d{{3}})+[{point}]\d+$|^-?\d{{1,3}}(?:[{group}]\d{{3}}){{2,}}$"
)


@cache
def unit_factor(unit: str) -> float:
    """Return the factor from a unit to its base unit: byte, ns, %, hz, byte/s. An unknown unit is its own base."""
    over, _, under = unit.strip().partition("/")
    if over == "cycle" and under in _PER_SECOND:
        return _PER_SECOND[under]
    factor = _TIMES.get(over) or _prefix(over)
    # Rates stay rates by the second.
    return factor if not under or under in ("s", "second") else factor / _prefix(under)


def _prefix(unit: str) -> float:
    found = _PREFIXED.fullmatch(unit)
    return _PREFIXES[found[1]] if found else 1.0


def decimal_sign(texts: pl.Series) -> str | None:
    """Return the decimal sign of a file's numbers, `.` or `,`: `.` where none has any; None where both seem to be."""
    signs = [
        point
        for point, group in ((".", ","), (",", "."))
        if texts.str.contains(_DECIMAL.format(point=point, group=group)).any()
    ]
    return None if len(signs) > 1 else (signs or ["."])[0]


def as_numbers(texts: pl.Expr, point: str) -> pl.Expr:
    """Return the numbers of texts, null for `n/a`, `no data`, `nan` and other texts.

    Behind a value may be those of its instances: `158 (0: 158)` is 158.
    """
    plain = texts.str.strip_chars().str.replace(r"\s+\(.*\)$", "")
    group = "," if point == "." else "."
    signed = plain.str.replace_all(group, "", literal=True).str.replace(",", ".", literal=True)
    digits = signed.str.extract(r"^([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)$")
    number = digits.cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)

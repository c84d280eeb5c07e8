"""Offsets given by hand: `--offsets FILE`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatch
from glob import escape
from pathlib import Path
from typing import NamedTuple

from nsys2prv.errors import UsageError
from nsys2prv.model.words import few

_OFFSET_UNITS = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


class GivenOffset(NamedTuple):
    """A correction of a report's UTC-aligned time: ns at its session start, and ppm from there on."""

    offset: int
    slope_ppm: float = 0.0


Offsets = Mapping[str, GivenOffset]


def read_offsets(path: Path) -> Offsets:
    """Read offsets by pattern of report, host or HOST/REPORT names. Raises UsageError.

    Lines `PATTERN OFFSET [PPM]` (`#` begins a comment; OFFSET in ns, or with a unit: -3.7ms), or the JSON that
    `nsys2prv align --json` prints and that lies beside a trace.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the offsets cannot be read ({error}); give a text file") from None
    if text.lstrip().startswith("{"):
        return _from_json(path, text)
    given: dict[str, GivenOffset] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split("#", 1)[0].split()
        if fields:
            # The first match counts, as in a file of hosts.
            given.setdefault(fields[0], _from_line(path, number, fields))
    return given


def _from_json(path: Path, text: str) -> Offsets:
    """Return the offsets in the JSON of `nsys2prv align --json`, by name or by HOST/NAME. Raises UsageError."""
    try:
        reports = json.loads(text)["reports"]
        of_reports = [
            (r["name"], r.get("host", ""), GivenOffset(round(r["offset_ns"]), float(r.get("slope_ppm", 0))))
            for r in reports
        ]
    except (ValueError, KeyError, TypeError) as error:
        cause = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: not the JSON of `nsys2prv align --json` ({cause}); make it anew") from None
    by_name: dict[str, set[GivenOffset]] = {}
    for name, _, given in of_reports:
        by_name.setdefault(name, set()).add(given)
    offsets: dict[str, GivenOffset] = {}
    for name, host, given in of_reports:
        # Reports of several hosts may have one name, such as report1.
        pattern = escape(name) if len(by_name[name]) == 1 else f"{escape(host)}/{escape(name)}"
        if offsets.setdefault(pattern, given) != given:
            raise UsageError(
                f"{path}: two reports {name} of host {host or 'unknown'} have different offsets; "
                "give the reports names of their own, or write lines PATTERN OFFSET [PPM]"
            )
    return offsets


def _from_line(path: Path, number: int, fields: Sequence[str]) -> GivenOffset:
    found = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)(ns|us|ms|s|)", fields[1]) if len(fields) in (2, 3) else None
    slope = re.fullmatch(r"[+-]?\d+(?:\.\d+)?", fields[2]) if len(fields) == 3 else None
    if found is None or (len(fields) == 3 and slope is None):
        raise UsageError(
            f"{path}, line {number}: not an offset; write PATTERN OFFSET [PPM], such as `node7* -3.7ms 20`"
        )
    return GivenOffset(round(Decimal(found[1]) * _OFFSET_UNITS[found[2]]), float(slope[0]) if slope else 0.0)


def given_for(offsets: Offsets, name: str, host: str) -> GivenOffset | None:
    """Return the offset of a report, by the first pattern that its name, its host's, or both match."""
    return next((given for pattern, given in offsets.items() if _matches(pattern, name, host)), None)


def unused_offsets(offsets: Offsets, reports: Sequence[tuple[str, str]]) -> list[str]:
    """Warn of patterns that match none of the reports (name, host)."""
    unused = [pattern for pattern in offsets if not any(_matches(pattern, *report) for report in reports)]
    return [f"--offsets: no report or host matches {few(unused)}"] if unused else []


def _matches(pattern: str, name: str, host: str) -> bool:
    return any(fnmatch(n, pattern) for n in (name, host, f"{host}/{name}"))

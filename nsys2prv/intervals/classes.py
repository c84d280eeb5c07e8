"""Kernel classes: a short readable class for each kernel name, by the rules of `kernel_classes.toml`.

Names are classed once, not per launch, and all by one query, so that the cost is that of some regexes over columns of
text, whatever the number of names.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nsys2prv.errors import Nsys2prvError

OTHER = "other"
NAME_COLUMNS = ("short", "demangled")
# Names whose classes are kept, some 200 bytes each.
MOST_KEPT = 20_000

_FIELDS = {"class", "family", "communication", *NAME_COLUMNS}
_LOWER = "lower"
_NO_RULE = -1
_ASCII = {"w": "[0-9A-Za-z_]", "d": "[0-9]"}

FORM = "the page Kernel classes of the docs shows the form of rules"


class ClassRulesError(Nsys2prvError, ValueError):
    """A rules file that cannot be used. One line: file, rule, cause."""


class ClassRule(NamedTuple):
    """One rule: the class of the names that match.

    `template` alternates literal text and (group, spec) of a regex capture; `patterns` has regexes by column of
    `NAME_COLUMNS`, one of which must match in each column; `groups` has by name the columns and regexes that capture a
    group; `communication` is True if the time of these kernels is communication.
    """

    family: str
    template: tuple[str | tuple[str, str], ...]
    patterns: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, tuple[tuple[str, str], ...]]
    communication: bool = False

    def matches(self) -> pl.Expr:
        """Return True for the names of this rule: a boolean over columns `short` and `demangled`."""
        return pl.all_horizontal(
            pl.any_horizontal(pl.col(column).str.contains(pattern) for pattern in patterns)
            for column, patterns in self.patterns.items()
        )

    def label(self) -> pl.Expr:
        """Return the class of the names of this rule: the template filled with the captures of its groups."""
        parts = [pl.lit(part) if isinstance(part, str) else self._captured(*part) for part in self.template]
        # An empty group must leave neither two blanks nor one at the end.
        return pl.concat_str(parts).str.replace_all(r"\s+", " ").str.strip_chars()

    def _captured(self, group: str, spec: str) -> pl.Expr:
        """Return the text that `group` captured, in lower case if `spec` says so; empty if it captured nothing."""
        found = [
            pl.col(column).str.extract_groups(pattern).struct.field(group) for column, pattern in self.groups[group]
        ]
        text = pl.coalesce(*found, pl.lit(""))
        return text.str.to_lowercase() if spec == _LOWER else text


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules in the order in which they are tried, and the families (coarse classes), longest first."""

    rules: tuple[ClassRule, ...]
    families: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = {rule.family for rule in self.rules} | {OTHER}
        object.__setattr__(self, "families", tuple(sorted(names, key=lambda name: (-len(name), name))))


def load_rules(extra: Path | None = None) -> Rules:
    """Return the packaged rules, after those of the file `extra` if given. Raises `ClassRulesError`."""
    packaged = _packaged_rules()
    if extra is None:
        return packaged
    try:
        text = extra.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ClassRulesError(f"{extra}: cannot be read: {cause}; {FORM}") from error
    return Rules(_parse(text, str(extra), untried=True) + packaged.rules)


def classify_kernels(names: pl.DataFrame, rules: Rules | None = None) -> pl.DataFrame:
    """Return the class of each kernel name, and True if its kernels communicate.

    `names` has the columns `short` and `demangled` (String; null is no name), one row a distinct name. Gives the
    columns `class` (String) and `communication` (Boolean) in the same order, without nulls: `OTHER` and False where no
    rule matches. Classes by the packaged rules are kept: the reports of a run have the same kernels, and to try
    the rules takes 13 ms.
    """
    texts = names.select(pl.col(column).cast(pl.String).fill_null("") for column in NAME_COLUMNS)
    if rules is not None or texts.height > MOST_KEPT:
        return _by_rules(texts, rules or load_rules())
    pairs, kept = texts.rows(), _kept()
    if len(kept) + len(pairs) > MOST_KEPT:
        kept.clear()
    fresh = texts.filter(pl.Series([pair not in kept for pair in pairs], dtype=pl.Boolean))
    if fresh.height:
        kept.update(zip(fresh.rows(), _by_rules(fresh, load_rules()).iter_rows(), strict=True))
    return pl.DataFrame([kept[pair] for pair in pairs], schema=_CLASSIFIED, orient="row")


_CLASSIFIED = {"class": pl.String(), "communication": pl.Boolean()}


@cache
def _kept() -> dict[tuple[str, ...], tuple[str, bool]]:
    """Return classes by the packaged rules, of names that this process has met."""
    return {}


def _by_rules(texts: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """Return class and communication of each row of names, by the first rule that matches."""
    # One chunk: every rule visits every chunk, and a column gathered from many reports has one a report.
    texts = texts.rechunk().with_row_index("row")
    # All rules in one query, as many small ones take four times as long; and as many columns, from which Polars would
    # take as long again to choose.
    hits = texts.select(rule.matches().alias(str(n)) for n, rule in enumerate(rules.rules)).to_numpy()
    first = np.where(hits.any(axis=1), hits.argmax(axis=1), _NO_RULE)
    ruled = texts.with_columns(rule=pl.Series(first))
    matched = np.unique(first[first != _NO_RULE]).tolist()
    by_rule = [_classified(ruled, n, rules.rules[n].label(), rules.rules[n].communication) for n in matched]
    others = _classified(ruled, _NO_RULE, pl.lit(OTHER), False)
    return pl.concat([*by_rule, others]).sort("row").drop("row").collect()


def _classified(ruled: pl.DataFrame, rule: int, label: pl.Expr, communication: bool) -> pl.LazyFrame:
    """Return row, class and communication of the names of one rule."""
    flag = pl.lit(communication).alias("communication")
    return ruled.lazy().filter(rule=rule).select("row", label.alias("class"), flag)


def family_of(class_name: str, rules: Rules | None = None) -> str:
    """Return the coarse class of a class: `GEMM` of `GEMM tn 128x128x64`. A class of no known family is its own."""
    for family in (rules or load_rules()).families:
        if class_name == family or class_name.startswith(f"{family} "):
            return family
    return class_name


@cache
def _packaged_rules() -> Rules:
    """Return the rules of the package's own data file, read once a process."""
    source = files("nsys2prv.intervals").joinpath("kernel_classes.toml")
    return Rules(_parse(source.read_text(encoding="utf-8"), source.name, untried=False))


def _parse(text: str, source: str, untried: bool) -> tuple[ClassRule, ...]:
    """Parse the rules of a TOML text; `source` names it in errors. `untried`: no test tried them, which takes 0.1 s."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ClassRulesError(f"{source}: not TOML: {error}; {FORM}") from error
    tables = document.get("rule")
    if set(document) != {"rule"} or not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise ClassRulesError(f"{source}: expected tables [[rule]] and nothing else; {FORM}")
    parsed = []
    for number, table in enumerate(tables, start=1):
        try:
            parsed.append(_rule(table, untried))
        except ValueError as error:
            rule = f"rule {number} ({table.get('class', 'no class')})"
            raise ClassRulesError(f"{source}: {rule}: {error}; {FORM}") from error
    return tuple(parsed)


def _rule(table: Mapping[str, Any], untried: bool) -> ClassRule:
    """Make one rule from its TOML table. Regexes that no test has tried are compiled here. Raises ValueError."""
    if unknown := sorted(set(table) - _FIELDS):
        raise ValueError(f"unknown key {unknown[0]!r}; known are {', '.join(sorted(_FIELDS))}")
    patterns = {column: _patterns(column, table[column]) for column in NAME_COLUMNS if column in table}
    if not patterns:
        raise ValueError("needs a regex in 'short', in 'demangled', or in both")
    template = _template(table.get("class"))
    if untried:
        _compile(patterns)
    groups = _captures(patterns)
    for part in template:
        if not isinstance(part, str) and part[0] not in groups:
            raise ValueError(f"no regex has a group (?P<{part[0]}>...)")
    communication = table.get("communication", False)
    if not isinstance(communication, bool):
        raise ValueError("'communication' must be true or false")
    return ClassRule(_family(table, template), template, patterns, groups, communication)


def _template(text: object) -> tuple[str | tuple[str, str], ...]:
    """Return the parts of a class template: literal text, and (group, spec) for each pair of braces."""
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise ValueError("'class' must be a text of one line")
    return tuple(_template_parts(text))


def _template_parts(text: str) -> Iterator[str | tuple[str, str]]:
    for literal, group, spec, conversion in Formatter().parse(text):
        if literal:
            yield literal
        if group is None:
            continue
        if not group.isidentifier() or spec not in ("", _LOWER) or conversion:
            raise ValueError("in 'class', braces hold a group name, or a group name and ':lower'")
        yield group, spec or ""


def _family(table: Mapping[str, Any], template: tuple[str | tuple[str, str], ...]) -> str:
    """Return the rule's family: as given, else the text before the template's first group."""
    text = template[0].strip() if isinstance(template[0], str) else ""
    family = table.get("family", text)
    if not text or not isinstance(family, str) or not f"{text} ".startswith(f"{family.strip()} "):
        raise ValueError("'class' must begin with text, and 'family' with the first words of that text")
    return family.strip()


def _patterns(column: str, value: object) -> tuple[str, ...]:
    """Return the regexes of a key: one, or a list of them."""
    regexes = [value] if isinstance(value, str) else value
    if not isinstance(regexes, list) or not regexes or not all(isinstance(r, str) and r for r in regexes):
        raise ValueError(f"{column!r} must be a regex or a list of regexes")
    return tuple(map(_of_ascii, regexes))


def _of_ascii(regex: str) -> str:
    r"""Make `\w` and `\d` of a regex match ASCII alone: Unicode takes half of the time of compiling all rules."""
    return re.sub(r"\\(.)", lambda escaped: _ASCII.get(escaped[1], escaped[0]), regex)


def _captures(patterns: Mapping[str, Sequence[str]]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return by the name of each group the columns and regexes that capture it."""
    groups: dict[str, tuple[tuple[str, str], ...]] = {}
    for column, regexes in patterns.items():
        for regex in regexes:
            for group in re.findall(r"\(\?P?<([A-Za-z_]\w*)>", regex):
                groups[group] = (*groups.get(group, ()), (column, regex))
    return groups


def _compile(patterns: Mapping[str, Sequence[str]]) -> None:
    """Compile regexes with the engine that will run them. Raises ValueError with the cause."""
    for column, regex in ((column, regex) for column, regexes in patterns.items() for regex in regexes):
        try:
            pl.select(pl.lit("").str.extract_groups(regex))
        except pl.exceptions.ComputeError as error:
            causes = [line.removeprefix("error: ") for line in str(error).splitlines() if line.startswith("error: ")]
            raise ValueError(f"regex {regex!r} in {column!r}: {causes[0] if causes else 'not a regex'}") from error

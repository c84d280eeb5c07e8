"""Declarations of the tables of an export, and their names in the export of a version.

A table declares its columns, their types, and defaults for columns that a version lacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple

ColumnKind = Literal["int", "text", "real", "blob"]

# Highest time of an event on any clock (ns): 73 years. Sums and differences of such times fit in 64 bits.
TIME_LIMIT = 1 << 61


class Column(NamedTuple):
    """One column: its type, the value to assume when the export lacks it, and its names in other versions.

    `required`: rows without it are useless; `expected`: all known versions have it, so a report without it is named.
    """

    kind: ColumnKind = "int"
    default: int | float | str | None = None
    required: bool = False
    aliases: tuple[str, ...] = ()
    expected: bool = False


class Cut(Enum):
    """The way in which the rows of a table are spread over the slices of a large report."""

    BY_TIME = "by their own time"
    BY_CALL = "with the CUDA call of the same correlation id; without one, by their own time"
    NOT = "not at all: each slice has all rows, and a family that draws them does so in one slice only"


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its name, columns, and `time`, the column by which its rows are events (None: definitions).

    `cut`: how its rows are spread over the slices of a large report; None: a sliced family cannot have it.
    `in_all_slices`: a column, and its values in the rows that every slice gets because they name things.
    `zero_is_no_time`: CUPTI recorded no time for rows from 0 to 0. `aliases`: its names in other versions.
    `other_time`: the column that may have the time of rows without one; the family that draws them looks there.
    """

    name: str
    columns: Mapping[str, Column] = field(hash=False)
    time: str | None = None
    cut: Cut | None = None
    in_all_slices: tuple[str, tuple[int, ...]] | None = None
    zero_is_no_time: bool = False
    aliases: tuple[str, ...] = ()
    other_time: str | None = None

    def __post_init__(self) -> None:
        if self.name in DECLARED_TABLES:
            raise ValueError(f"table {self.name} is declared twice")
        DECLARED_TABLES[self.name] = self


DECLARED_TABLES: dict[str, Table] = {}


# The wanted columns that an export has: declared name -> (name in the export, declaration).
HeldColumns = Mapping[str, tuple[str, Column]]


def names_in_export(tables: Iterable[Table], names: Iterable[str]) -> dict[str, str]:
    """Return the name in the export of each table: its own, the variant `_V<n>` of the highest number, or an alias."""
    held: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        plain, version = _versioned(name)
        held.setdefault(plain, []).append((version, name))
        held.setdefault(name, []).append((1, name))
    known = {t.name: next((name for name in (t.name, *t.aliases) if name in held), None) for t in tables}
    return {table: max(held[name])[1] for table, name in known.items() if name is not None}


def _versioned(name: str) -> tuple[str, int]:
    """Return the name of a table without `_V<n>`, and n (1: without)."""
    found = re.fullmatch(r"(.+)_V(\d+)", name)
    return (found[1], int(found[2])) if found else (name, 1)


def held_columns(present: Iterable[str], wanted: Mapping[str, Column]) -> HeldColumns:
    """Return the wanted columns that an export has: name -> (name in the export, declaration)."""
    held = set(present)
    found = {n: next((s for s in (n, *c.aliases) if s in held), None) for n, c in wanted.items()}
    return {n: (s, wanted[n]) for n, s in found.items() if s is not None}

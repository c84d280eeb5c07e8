"""Find declared tables and columns in an export, under the names of its version (`aliases` in `schema`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from nsys2prv.report.declaration import Column, HeldColumns, Table


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
    found = re.fullmatch(r"(.+)_V(\d+)", name)
    return (found[1], int(found[2])) if found else (name, 1)


def missing_columns(present: Iterable[str], table: Table) -> list[str]:
    """Return the needed columns that an export's table lacks."""
    held = set(present)
    return [n for n, c in table.columns.items() if c.required and not held & {n, *c.aliases}]


def held_columns(present: Iterable[str], wanted: Mapping[str, Column]) -> HeldColumns:
    """Return the wanted columns that an export has: name -> (name in the export, declaration)."""
    held = set(present)
    found = {n: next((s for s in (n, *c.aliases) if s in held), None) for n, c in wanted.items()}
    return {n: (s, wanted[n]) for n, s in found.items() if s is not None}

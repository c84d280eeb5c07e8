"""The families as data, for who chooses among them: to load them with all that they need takes a fifth of a second.

`catalogue.json` is written from the registry, by `python docs/generate.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from nsys2prv.report.schema import TABLES, Table, columns_of_all

FILE = Path(__file__).with_suffix(".json")


class Known(NamedTuple):
    """A family's name, whether it is translated without being asked for, and its name in the public nsys2prv.

    `analysed`: whether analysis uses it; `reads`: columns by table, with those of the relations that it needs.
    """

    name: str
    default: bool
    public: str | None
    analysed: bool
    reads: Mapping[str, tuple[str, ...]]


def reads_of(names: Iterable[str]) -> dict[Table, tuple[str, ...]]:
    """Columns of each table that families need: what `read_columns` says of them."""
    chosen = set(names)
    return columns_of_all({TABLES[t]: c for t, c in k.reads.items()} for k in KNOWN if k.name in chosen)


def analysed(names: Iterable[str]) -> tuple[str, ...]:
    """Those of these families that analysis uses."""
    used = {k.name for k in KNOWN if k.analysed}
    return tuple(name for name in names if name in used)


KNOWN = tuple(Known(**row) for row in json.loads(FILE.read_text(encoding="utf-8")))

"""Tables as text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nsys2prv.model.units import MS
from nsys2prv.model.words import short

if TYPE_CHECKING:
    from nsys2prv.analysis.shown_tables import Records, ShownTable

# Rows of a long table that the terminal shows.
TABLE_ROWS = 10
# Longest text of a cell.
CELL_WIDTH = 60
# Behind the title of a table whose rows are sums over all ranks.
ALL_RANKS = ", all ranks"

# Name of a section, title, heads and rows of one of its tables.
Section = tuple[str, str, list[str], list[list[str]]]


def section(table: ShownTable, columns: Sequence[str], rows: Records, of: str = "", width: int = CELL_WIDTH) -> Section:
    """Return some columns of a table for the terminal. `of`: behind its title; `width`: longest text of a cell."""
    cells = [[_cell(table, column, row.get(column), width) for column in columns] for row in rows]
    return table.section, table.title + of, [*map(table.head, columns)], cells


def _cell(table: ShownTable, column: str, value: Any, width: int) -> str:
    if isinstance(value, int | float):
        return table.unit(column, whole=isinstance(value, int)).text(value)
    return table.none.get(column, "") if value is None else short(str(value), width)


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table with aligned columns, a line a row: numbers to the right, texts to the left."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    right = [all(not row[n] or row[n][0] in "+-0123456789" for row in rows) for n in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def printable(text: str) -> str:
    """Replace line ends, tabs and control characters in a name of a program by blanks."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def ms(ns: float) -> str:
    """Write a time in milliseconds."""
    return MS.text(ns)

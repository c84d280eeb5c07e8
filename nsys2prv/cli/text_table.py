"""Tables as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from nsys2prv.cli.screen import fitting, terminal_width
from nsys2prv.model.units import MS
from nsys2prv.model.words import short

if TYPE_CHECKING:
    from nsys2prv.analysis.shown_tables import Records, ShownTable

# Rows of a long table that the terminal shows.
TABLE_ROWS = 10
# Longest text of a cell.
CELL_WIDTH = 60
# Between columns, and before the first one.
GAP = "  "
# Shortest line of a text that takes several: with less room it stands below its row.
LEAST_TEXT = 14
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
    """Lay out a table with aligned columns, numbers to the right and texts to the left.

    A row is a line, unless it is wider than the terminal: then its widest text takes several.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    right = [all(not row[n] or row[n][0] in "+-0123456789" for row in rows) for n in range(len(head))]
    widths = _widths([head, *rows])
    spare = (terminal_width() or inf) - sum(len(GAP) + width for width in widths)
    below = None
    if spare < 0 and not all(right):
        widest = max((n for n in range(len(head)) if not right[n]), key=widths.__getitem__)
        if (room := int(widths[widest] + spare)) >= LEAST_TEXT:
            return "\n".join(_lines([head, *rows], right, widest, room))
        below = widest if widths[widest] > LEAST_TEXT else None
    return "\n".join(_lines([head, *rows], right, below))


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _lines(
    rows: Sequence[Sequence[str]], right: Sequence[bool], column: int | None = None, room: int = 0
) -> Iterator[str]:
    """Yield the lines of rows, `right`: columns of numbers. A long `column` is wrapped, or, without room, is below."""
    laid: list[list[str]] = []
    notes: dict[int, str] = {}
    for row in rows:
        if column is None:
            laid.append([*row])
        elif room:
            first, *others = wrap(row[column], room, break_on_hyphens=False) or [""]
            laid.append([*row[:column], first, *row[column + 1 :]])
            laid += [[text if n == column else "" for n in range(len(row))] for text in others]
        else:
            notes[len(laid)] = row[column]
            laid.append([*row[:column], *row[column + 1 :]])
    if notes and column is not None:
        right = [*right[:column], *right[column + 1 :]]
    widths = _widths(laid)
    for number, row in enumerate(laid):
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        yield GAP + GAP.join(cells).rstrip()
        if number in notes:
            yield fitting(notes[number], 3 * GAP)


def printable(text: str) -> str:
    """Replace line ends, tabs and control characters in a name of a program by blanks."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def ms(ns: float) -> str:
    """Write a time in milliseconds."""
    return MS.text(ns)

"""Tables as text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from nsys2prv.model.units import MS

# Rows of a long table that the terminal shows.
TABLE_ROWS = 10


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

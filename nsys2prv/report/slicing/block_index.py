"""Tables of a sliced report that stay in place: the rows of a slice are read on demand.

Dividing a table into files and reading the files takes longer than reading the table twice. So a table stays in place
if its format lets some rows be read without those before them, and if the rows of a slice lie close together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.model.limits import Limits
from nsys2prv.report.declaration import Table
from nsys2prv.report.report import Report
from nsys2prv.report.slicing.slice_of_row import IN_ALL, Division, keys_of, range_counts
from nsys2prv.report.tables import ReadRows

# Average number of reads of a row, with its block, up to which the table is not divided.
MOST_READ = 2

Blocks = npt.NDArray[np.bool_]


class Seen(NamedTuple):
    """Facts from some rows. `since`: time (ns) of the first call in each slice; `range_counts`: RANGE_COUNTS of all."""

    since: npt.NDArray[np.int64]
    range_counts: pl.DataFrame


class InPlace(NamedTuple):
    """A table whose rows are found by blocks. `blocks`: true where a block (row) has rows of a slice (column)."""

    table: Table
    read: ReadRows
    division: Division
    block_rows: int
    blocks: Blocks
    seen: Seen

    def rows(self, number: int) -> pl.DataFrame:
        """Return the rows of a slice, in their order in the table. Raises ReportError."""
        parts = [self._rows_of(number, first, end) for first, end in _runs(self.blocks[:, number])]
        return pl.concat(parts) if parts else self.read(0, 0)

    def _rows_of(self, number: int, first: int, end: int) -> pl.DataFrame:
        """Return the rows of a slice in some successive blocks."""
        rows = self.read(first * self.block_rows, (end - first) * self.block_rows)
        of = self.division.of(self.table, rows)
        here = (of == number) | (of == IN_ALL)
        return rows if here.all() else rows.filter(pl.Series(here))


def found_in_place(
    report: Report,
    table: Table,
    columns: Sequence[str],
    division: Division,
    readers: ThreadPoolExecutor,
    limits: Limits,
) -> InPlace | None:
    """Return the table in place, or None if its rows are scattered or cannot be found quickly.

    Raises ReportError.
    """
    read = report.rows_reader(table, columns)
    keys = keys_of(table, columns)
    look = report.rows_reader(table, keys) if keys else None
    if read is None or look is None:
        return None
    block = limits.block_rows
    rows = max(limits.piece_rows(len(keys)) // block, 1) * block
    looked = [*readers.map(partial(_look, table, look, division, (block, rows)), range(0, report.rows(table), rows))]
    blocks = np.concatenate([blocks for blocks, _ in looked])
    if blocks.sum() > MOST_READ * len(blocks) + division.slices:
        return None
    since = np.minimum.reduce([seen.since for _, seen in looked])
    return InPlace(
        table, read, division, block, blocks, Seen(since, pl.concat(seen.range_counts for _, seen in looked))
    )


def _look(table: Table, read: ReadRows, division: Division, sizes: tuple[int, int], first: int) -> tuple[Blocks, Seen]:
    """Find which blocks have rows of which slices. `sizes`: rows of a block, and of all blocks looked at together."""
    block, count = sizes
    rows = read(first, count)
    number = division.of(table, rows)
    blocks = np.zeros((-(-rows.height // block), division.slices), dtype=np.bool_)
    chosen = number != IN_ALL
    blocks[(np.arange(rows.height) // block)[chosen], number[chosen]] = True
    blocks[np.flatnonzero(~chosen) // block] = True
    return blocks, Seen(division.since(table, rows, number), range_counts(table, rows))


def _runs(chosen: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Return first and end of each run of chosen blocks."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8)))
    return zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)

"""The slice of time of each row of a large report.

Device activity is in the slice of the call that launched it, which may be half a second before it: calls and device
activity are cut by correlation id, whose borders follow from those of time. Ids of a process grow with time, except for
concurrent calls of its threads: so every slice but the first begins after all calls of earlier slices have begun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.model.global_ids import process_of
from nsys2prv.model.limits import Limits
from nsys2prv.report import schema
from nsys2prv.report.declaration import Cut, Table
from nsys2prv.report.report import Report
from nsys2prv.report.tables import ReadPiece

IN_ALL = -1
# Times (ns), and correlation ids, before and after all others.
BEFORE_ALL, AFTER_ALL = np.iinfo(np.int64).min, np.iinfo(np.int64).max

RANGE_COUNTS = {"globalTid": pl.Int64(), "domainId": pl.Int64(), "eventType": pl.Int64(), "len": pl.UInt32()}
COUNTED = [c for c in RANGE_COUNTS if c != "len"]
# The columns that, beside the time, determine the slice of a row.
_ID = "correlationId"
# Correlation ids have 32 bits, and go on counting while nothing is recorded: those of a long run begin again.
_IDS = 1 << 32
_DIVIDING = ("globalTid", "globalPid", _ID, "domainId", "eventType")


class Division(NamedTuple):
    """Slices between `borders` (ns), into which rows of tables fall."""

    borders: npt.NDArray[np.int64]
    calls: _Calls

    @classmethod
    def at(
        cls,
        borders: npt.NDArray[np.int64],
        report: Report,
        columns: Mapping[Table, Sequence[str]],
        readers: ThreadPoolExecutor,
        limits: Limits,
    ) -> Division:
        """Divide at borders, after a look at the report's calls if `columns` are cut by them. Raises ReportError."""
        by_call = any(table.cut is Cut.BY_CALL and _ID in names for table, names in columns.items())
        return cls(borders, _Calls.of(report, borders, readers, limits) if by_call else _Calls.none())

    @property
    def slices(self) -> int:
        """Return the number of slices."""
        return len(self.borders) + 1

    def of(self, table: Table, rows: pl.DataFrame) -> npt.NDArray[np.int64]:
        """Return slice of each row, or IN_ALL."""
        number = np.searchsorted(self.borders, _times(rows, table), side="right").astype(np.int64)
        if table.cut is Cut.BY_CALL and _ID in rows.columns:
            return self.calls.slice_of(rows, number)
        if table.in_all_slices is not None:
            column, values = table.in_all_slices
            return np.where(rows[column].is_in(values).to_numpy(), IN_ALL, number)
        return number

    def since(self, table: Table, rows: pl.DataFrame, number: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return time (ns) of the first call among the rows of each slice."""
        first = np.full(self.slices, AFTER_ALL)
        if table is schema.RUNTIME:
            times = _times(rows, table)
            timed = times != BEFORE_ALL
            np.minimum.at(first, number[timed], times[timed])
        return first


def keys_of(table: Table, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns among these that determine the slice of a row."""
    return tuple(c for c in columns if c in (table.time, *_DIVIDING))


def range_counts(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Return RANGE_COUNTS of rows of NVTX events, or an empty frame for other tables."""
    counted = rows.group_by(COUNTED).len() if table is schema.NVTX else pl.DataFrame()
    return counted if counted.height else pl.DataFrame(schema=RANGE_COUNTS)


def _times(rows: pl.DataFrame, table: Table) -> npt.NDArray[np.int64]:
    """Return the times by which rows are cut. Rows without a time go to the first slice, which counts them."""
    if table.time not in rows.columns:
        return np.full(rows.height, BEFORE_ALL)
    return rows[table.time].fill_null(BEFORE_ALL).to_numpy()


@dataclass
class _Calls:
    """Borders between slices as correlation ids, for each process."""

    processes: npt.NDArray[np.int64]
    # A row a process: the first id of each slice but the first.
    first_ids: npt.NDArray[np.int64]
    # For each process: ids below this one began again, after the highest id.
    again: npt.NDArray[np.int64]

    @classmethod
    def none(cls) -> _Calls:
        """Make the borders of a report whose calls do not matter."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none.reshape(0, 0), none)

    @classmethod
    def of(cls, report: Report, borders: npt.NDArray[np.int64], readers: ThreadPoolExecutor, limits: Limits) -> _Calls:
        """Find the first id of each slice and all later ones, in a first pass over the calls."""
        kept = ("start", "globalTid", _ID)
        pieces = report.pieces(schema.RUNTIME, kept, limits.piece_rows(len(kept)))
        firsts = readers.map(partial(_first_ids, borders), pieces)
        found = pl.concat([pl.DataFrame(schema=_FIRST), *firsts])
        apart = found.group_by("process").agg(again=pl.col("id").max() - _IDS // 2).sort("process")
        processes, again = (apart[c].to_numpy() for c in ("process", "again"))
        process, number, first = (found[c].to_numpy() for c in ("process", "slice", "id"))
        row = np.searchsorted(processes, process)
        ids = np.full((len(processes), len(borders) + 1), AFTER_ALL)
        np.minimum.at(ids, (row, number), _in_order(first, again[row]))
        return cls(processes, np.minimum.accumulate(ids[:, ::-1], axis=1)[:, ::-1][:, 1:], again)

    def slice_of(self, rows: pl.DataFrame, otherwise: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the slice of each row by process and correlation id; `otherwise` if the process made no calls."""
        holder = "globalTid" if "globalTid" in rows.columns else "globalPid"
        process = process_of(rows[holder].fill_null(0)).to_numpy()
        ids = rows[_ID].fill_null(0).to_numpy()
        number = otherwise.copy()
        for n, one in enumerate(self.processes):
            here = (process == one) & (ids != 0)
            number[here] = np.searchsorted(self.first_ids[n], _in_order(ids[here], self.again[n]), side="right")
        return number


_FIRST = {"process": pl.Int64(), "slice": pl.Int64(), "id": pl.Int64()}


def _in_order(ids: npt.NDArray[np.int64], again: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return ids as if they had gone on counting instead of beginning again."""
    return np.where(ids < again, ids + _IDS, ids)


def _first_ids(borders: npt.NDArray[np.int64], read: ReadPiece) -> pl.DataFrame:
    """Return process, slice and lowest id of the calls in a piece, for the lower and the upper half of all ids."""
    calls = read().drop_nulls().filter(pl.col(_ID) != 0)
    number = np.searchsorted(borders, calls["start"].to_numpy(), side="right")
    keyed = calls.select(process=process_of(pl.col("globalTid")), slice=pl.Series(number).cast(pl.Int64), id=_ID)
    half = (pl.col("id") // (_IDS // 2)).alias("half")
    return keyed.group_by("process", "slice", half).agg(pl.col("id").min()).select(list(_FIRST))

"""A large report cut into slices of time, each small enough to be worked on in memory.

The borders depend on the report alone: neither the memory nor the number of workers changes the trace.
A table stays where it is if the rows of a slice are found quickly; others are divided once, into files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.errors import not_written
from nsys2prv.model.limits import VALUE_BYTES, Limits
from nsys2prv.report.declaration import DECLARED_TABLES, Cut, Table
from nsys2prv.report.report import Report
from nsys2prv.report.slicing.block_index import InPlace, Seen, found_in_place
from nsys2prv.report.slicing.slice_of_row import (
    AFTER_ALL,
    BEFORE_ALL,
    COUNTED,
    IN_ALL,
    RANGE_COUNTS,
    Division,
    range_counts,
)
from nsys2prv.report.tables import ReadPiece

# Number of rows of each table from which the borders are chosen.
LOOKED_AT = 1000
# Threads that read a report: more of them only take more memory.
MOST_READERS = 4


@dataclass
class Slices:
    """The cut tables of a report, in place or in files of a folder."""

    folder: Path
    # Times between slices.
    borders: npt.NDArray[np.int64]
    # The tables that are cut; others are the same in every slice.
    tables: tuple[Table, ...]
    # Nothing in slice k or a later one was called before since[k] (ns).
    since: npt.NDArray[np.int64]
    # Rows of NVTX_EVENTS by globalTid, domainId, eventType: `len`.
    range_counts: pl.DataFrame
    _in_place: dict[str, InPlace] = field(default_factory=dict)
    _files: dict[tuple[str, int], list[Path]] = field(default_factory=dict)
    _schemas: dict[str, pl.DataFrame] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of slices."""
        return len(self.borders) + 1

    def until(self, number: int) -> int:
        """Return time (ns) before which nothing in later slices was called."""
        return int(self.since[number + 1]) if number + 1 < self.count else AFTER_ALL

    def table(self, table: Table, number: int) -> pl.DataFrame:
        """Return a table's rows in one slice, and remove its files: every slice is read once."""
        if table.name in self._in_place:
            return self._in_place[table.name].rows(number)
        parts = [self._schemas[table.name]]
        for path in self._files.pop((table.name, number), []):
            parts.append(pl.read_ipc(path))
            path.unlink()
        return pl.concat(parts)

    def keep(self, table: InPlace) -> None:
        """Take over a table that stays in place."""
        self._in_place[table.table.name] = table
        self._take_facts(table.seen)

    def add(self, divided: _Divided) -> None:
        """Take over the next piece of a table."""
        self._schemas.setdefault(divided.table.name, divided.schema)
        for number, path in divided.files:
            self._files.setdefault((divided.table.name, number), []).append(path)
        self._take_facts(divided.seen)

    def _take_facts(self, seen: Seen) -> None:
        """Take over the facts of a piece or table that was looked at."""
        self.since = np.minimum(self.since, seen.since)
        if seen.range_counts.height:
            self.range_counts = _together([self.range_counts, seen.range_counts])


class _Divided(NamedTuple):
    """A piece of a table, divided among the slices: a file for each slice that has rows of it."""

    table: Table
    schema: pl.DataFrame
    files: list[tuple[int, Path]]
    seen: Seen


def divide(report: Report, columns: Mapping[Table, tuple[str, ...]], folder: Path, limits: Limits) -> Slices | None:
    """Divide the report into slices; None when it fits in one. Raises ReportError, OutputError.

    `columns`: the needed columns of each table. `folder`: a new folder for the files of divided tables.
    """
    cut = [t for how in (Cut.BY_CALL, Cut.BY_TIME) for t in DECLARED_TABLES.values() if t.cut is how and t in columns]
    rows = {t: report.rows_at_most(t) for t in cut if report.has(t)}
    tables = [t for t in rows if rows[t]]
    borders = _borders(report, {t: rows[t] * len(columns[t]) * VALUE_BYTES for t in tables}, limits)
    if not len(borders):
        return None
    folder.mkdir()
    slices = Slices(folder, borders, tuple(tables), np.append(BEFORE_ALL, borders), pl.DataFrame(schema=RANGE_COUNTS))
    with readers() as threads:
        division = Division.at(borders, report, columns, threads, limits)
        found_at = ((t, found_in_place(report, t, columns[t], division, threads, limits)) for t in tables)
        in_place = {t: found for t, found in found_at if found}
        for found in in_place.values():
            slices.keep(found)
        divided = [t for t in tables if t not in in_place]
        pieces = [
            (t, read) for t in divided for read in report.pieces(t, columns[t], limits.piece_rows(len(columns[t])))
        ]
        for one in threads.map(_Divider(folder, division).divide, range(len(pieces)), pieces):
            slices.add(one)
    # A thread may make a call later than another thread, yet with a lower id.
    slices.since = np.minimum.accumulate(slices.since[::-1])[::-1]
    return slices


@contextmanager
def readers(left: int = 0) -> Iterator[ThreadPoolExecutor]:
    """Start threads that read tables, one for each core of this process; after an error they begin no further table.

    `left`: cores to leave to work on other tables, which readers would slow down.
    """
    with ThreadPoolExecutor(min(max(pl.thread_pool_size() - left, 1), MOST_READERS)) as threads:
        try:
            yield threads
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


class _Divider(NamedTuple):
    """A function object that divides pieces of tables among slices."""

    folder: Path
    division: Division

    def divide(self, name: int, piece: tuple[Table, ReadPiece]) -> _Divided:
        """Read a piece and write its rows to a file for each slice, with names of its own. Raises OutputError."""
        table, read = piece
        rows = read()
        number = self.division.of(table, rows)
        seen = Seen(self.division.since(table, rows, number), range_counts(table, rows))
        return _Divided(table, rows.clear(), self._write(name, rows, number), seen)

    def _write(self, name: int, rows: pl.DataFrame, number: npt.NDArray[np.int64]) -> list[tuple[int, Path]]:
        """Write rows to a file for each slice that has any; return each slice with its file. Raises OutputError."""
        files: list[tuple[int, Path]] = []
        # By counting, as slices are few: to hash or sort the numbers takes eight times as long.
        for one in np.flatnonzero(np.bincount(number - IN_ALL)) + IN_ALL:
            here = number == one
            part = rows if here.all() else rows.filter(pl.Series(here))
            for slice_number in range(self.division.slices) if one == IN_ALL else (int(one),):
                path = self.folder / f"{name}.{len(files)}"
                try:
                    part.write_ipc(path, compression="uncompressed")
                except OSError as error:
                    raise not_written(self.folder.parent, error) from None
                files.append((slice_number, path))
        return files


def _together(counts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(counts).group_by(COUNTED).agg(pl.col("len").sum())


def _borders(report: Report, sizes: Mapping[Table, int], limits: Limits) -> npt.NDArray[np.int64]:
    """Return times that divide tables of some sizes (bytes) into slices of about `slice_bytes`, by a look at rows."""
    whole = sum(sizes.values())
    if whole <= limits.whole_bytes:
        return np.zeros(0, dtype=np.int64)
    wanted = -(-whole // limits.slice_bytes)
    times = [report.some_times(table, LOOKED_AT) for table in sizes]
    time = np.concatenate(times)
    if not len(time):
        return time
    parts = zip(times, sizes.values(), strict=True)
    weight = np.concatenate([np.full(len(own), size / max(len(own), 1)) for own, size in parts])
    order = np.argsort(time, kind="stable")
    filled = np.cumsum(weight[order])
    at = np.searchsorted(filled, filled[-1] * np.arange(1, wanted) / wanted)
    borders: npt.NDArray[np.int64] = np.unique(time[order][at])
    return borders

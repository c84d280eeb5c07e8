"""A large report cut into slices of time, each small enough to be worked on in memory.

Device activity is in the slice of the call that launched it, which may be half a second before it: calls and device
activity are cut by correlation id, the borders of which follow from those of time. Ids of a process grow with time but
for what its threads do at once, so that every slice but the first begins after all calls of those before have begun.
Where the borders lie depends on the report alone: how much memory there is, or how many workers, changes no trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.errors import OutputError
from nsys2prv.report import schema
from nsys2prv.report.limits import PIECE_BYTES, SLICE_BYTES, WHOLE, WORD
from nsys2prv.report.report import Report
from nsys2prv.report.schema import Table
from nsys2prv.report.tables import ReadPiece

# Rows of each table that are looked at to choose the borders.
LOOKED_AT = 1000

# Cut by the correlation id of the call; what has none, by its own time.
BY_CALL = (
    schema.RUNTIME,
    schema.KERNEL,
    schema.MEMCPY,
    schema.MEMSET,
    schema.GRAPH_TRACE,
    schema.SYNCHRONIZATION,
    schema.CUDA_EVENT,
)
BY_TIME = (
    schema.NVTX,
    schema.OSRT,
    schema.METRICS,
    schema.CUBLAS,
    schema.CUDNN,
    schema.PROFILER_OVERHEAD,
    schema.CUPTI_OVERHEAD,
    schema.UCP_SUBMIT,
    schema.UCP_PROGRESS,
    schema.UCP_OTHER,
    schema.SYSCALLS,
    schema.SCHEDULING,
    schema.MEMORY_USAGE,
    *schema.OPENMP.values(),
)
# ENUM_NSYS_EVENT_TYPE of what names NVTX categories and domains: every slice has it.
NAMING = (33, 75)
_IN_ALL = -1
# Threads that read a report: what more of them take is memory.
MOST_READERS = 4
_EVER, _NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass
class Slices:
    """The cut tables of a report, in files of a folder."""

    folder: Path
    # Times between the slices.
    borders: npt.NDArray[np.int64]
    # The tables that are cut; others are the same in every slice.
    tables: tuple[Table, ...]
    # Nothing in slice k or a later one was called before since[k] (ns).
    since: npt.NDArray[np.int64]
    # Rows of NVTX_EVENTS by globalTid, domainId, eventType: `len`.
    range_counts: pl.DataFrame
    _files: dict[tuple[str, int], list[Path]] = field(default_factory=dict)
    _schemas: dict[str, pl.DataFrame] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of slices."""
        return len(self.borders) + 1

    def until(self, number: int) -> int:
        """Time (ns) before which nothing in later slices was called."""
        return int(self.since[number + 1]) if number + 1 < self.count else _NEVER

    def table(self, table: Table, number: int) -> pl.DataFrame:
        """A table's rows in one slice. Its files are removed: every slice is read once."""
        parts = [self._schemas[table.name]]
        for path in self._files.pop((table.name, number), []):
            parts.append(pl.read_ipc(path))
            path.unlink()
        return pl.concat(parts)

    def add(self, divided: _Divided) -> None:
        """Take over a piece of a table, after those before it."""
        self._schemas.setdefault(divided.table.name, divided.schema)
        for number, path in divided.files:
            self._files.setdefault((divided.table.name, number), []).append(path)
        self.since = np.minimum(self.since, divided.since)
        if divided.range_counts is not None:
            self.range_counts = _together([self.range_counts, divided.range_counts])


@dataclass(frozen=True, slots=True)
class _Divided:
    """A piece of a table, divided among the slices: the file for each slice that it has rows of."""

    table: Table
    schema: pl.DataFrame
    files: list[tuple[int, Path]]
    since: npt.NDArray[np.int64]
    range_counts: pl.DataFrame | None


def cut(report: Report, columns: Mapping[Table, tuple[str, ...]], folder: Path) -> Slices | None:
    """The report's slices, in files of a new folder; None when it fits in one. Raises ReportError, OutputError.

    `columns`: those needed of each table.
    """
    tables = [t for t in (*BY_CALL, *BY_TIME) if t in columns and report.has(t) and report.rows_at_most(t)]
    borders = _borders(report, columns, tables)
    if not len(borders):
        return None
    folder.mkdir()
    pieces = [(t, read) for t in tables for read in report.pieces(t, columns[t], _piece_rows(len(columns[t])))]
    slices = Slices(folder, borders, tuple(tables), np.append(_EVER, borders), pl.DataFrame(schema=_RANGE_COUNTS))
    with readers() as threads:
        divider = _Divider(folder, borders, _Calls.of(report, borders, threads))
        for divided in threads.map(divider.divide, range(len(pieces)), pieces):
            slices.add(divided)
    # A thread may call with an id below another's who called before it.
    slices.since = np.minimum.accumulate(slices.since[::-1])[::-1]
    return slices


@contextmanager
def readers() -> Iterator[ThreadPoolExecutor]:
    """Threads that read tables, as many as this process has cores for; after an error they begin no further one."""
    with ThreadPoolExecutor(min(pl.thread_pool_size(), MOST_READERS)) as threads:
        try:
            yield threads
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


@dataclass(frozen=True, slots=True)
class _Divider:
    """What divides pieces of tables among slices."""

    folder: Path
    borders: npt.NDArray[np.int64]
    calls: _Calls

    def divide(self, name: int, piece: tuple[Table, ReadPiece]) -> _Divided:
        """Read a piece and write its rows to a file for each slice, with names of its own. Raises OutputError."""
        table, read = piece
        rows = read()
        times = _times(rows, table)
        number = np.searchsorted(self.borders, times, side="right").astype(np.int64)
        since = np.full(len(self.borders) + 1, _NEVER)
        if table in BY_CALL:
            number = self.calls.slice_of(rows, number)
        if table is schema.RUNTIME:
            timed = times != _EVER
            np.minimum.at(since, number[timed], times[timed])
        counts = None
        if table is schema.NVTX:
            counts = rows.group_by(_COUNTED).len()
            number = np.where(rows["eventType"].is_in(NAMING).to_numpy(), _IN_ALL, number)
        return _Divided(table, rows.clear(), self._write(name, rows, number), since, counts)

    def _write(self, name: int, rows: pl.DataFrame, number: npt.NDArray[np.int64]) -> list[tuple[int, Path]]:
        files: list[tuple[int, Path]] = []
        for one in np.unique(number):
            part = rows.filter(pl.Series(number == one))
            for slice_number in range(len(self.borders) + 1) if one == _IN_ALL else (int(one),):
                path = self.folder / f"{name}.{len(files)}"
                try:
                    part.write_ipc(path, compression="uncompressed")
                except OSError as error:
                    cause = f"cannot write intermediate files ({error}); free space there"
                    raise OutputError(f"{self.folder.parent}: {cause}") from None
                files.append((slice_number, path))
        return files


_RANGE_COUNTS = {"globalTid": pl.Int64(), "domainId": pl.Int64(), "eventType": pl.Int64(), "len": pl.UInt32()}
_COUNTED = [c for c in _RANGE_COUNTS if c != "len"]


def _together(counts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(counts).group_by(_COUNTED).agg(pl.col("len").sum())


def _piece_rows(columns: int) -> int:
    return PIECE_BYTES // (WORD * columns)


def _times(rows: pl.DataFrame, table: Table) -> npt.NDArray[np.int64]:
    """Times by which rows are cut; what has none is in the first slice, where it is counted."""
    if table.time not in rows.columns:
        return np.full(rows.height, _EVER)
    return rows[table.time].fill_null(_EVER).to_numpy()


def _borders(
    report: Report, columns: Mapping[Table, tuple[str, ...]], tables: Sequence[Table]
) -> npt.NDArray[np.int64]:
    """Times that divide the tables into slices of about SLICE_BYTES, by a look at evenly spaced rows."""
    sizes = [report.rows_at_most(t) * len(columns[t]) * WORD for t in tables]
    wanted = -(-sum(sizes) // SLICE_BYTES)
    if wanted <= WHOLE:
        return np.zeros(0, dtype=np.int64)
    times, weights = [], []
    for table, size in zip(tables, sizes, strict=True):
        found = report.some_times(table, LOOKED_AT)
        times.append(found)
        weights.append(np.full(len(found), size / max(len(found), 1)))
    time, weight = np.concatenate(times), np.concatenate(weights)
    order = np.argsort(time, kind="stable")
    filled = np.cumsum(weight[order])
    at = np.searchsorted(filled, filled[-1] * np.arange(1, wanted) / wanted)
    borders: npt.NDArray[np.int64] = np.unique(time[order][at])
    return borders


@dataclass
class _Calls:
    """Borders between slices as correlation ids, for each process."""

    processes: npt.NDArray[np.int64]
    # A row a process: the first id of each slice but the first.
    first_ids: npt.NDArray[np.int64]

    @classmethod
    def of(cls, report: Report, borders: npt.NDArray[np.int64], readers: ThreadPoolExecutor) -> _Calls:
        """From a first look at the calls: id and time of the earliest in each slice, over all slices from it on."""
        kept = ("start", "globalTid", "correlationId")
        pieces = report.pieces(schema.RUNTIME, kept, _piece_rows(len(kept)))
        firsts = readers.map(partial(_first_ids, borders), pieces)
        none = pl.DataFrame(schema={"process": pl.Int64(), "slice": pl.Int64(), "id": pl.Int64()})
        found = pl.concat([none, *firsts]).group_by("process", "slice").agg(pl.col("id").min())
        processes = found["process"].unique().sort().to_numpy()
        ids = np.full((len(processes), len(borders) + 1), _NEVER)
        ids[np.searchsorted(processes, found["process"].to_numpy()), found["slice"].to_numpy()] = found["id"].to_numpy()
        return cls(processes, np.minimum.accumulate(ids[:, ::-1], axis=1)[:, ::-1][:, 1:])

    def slice_of(self, rows: pl.DataFrame, otherwise: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Slice of each row by its process and correlation id; `otherwise` for those whose process made no calls."""
        holder = "globalTid" if "globalTid" in rows.columns else "globalPid"
        process = (rows[holder].fill_null(0) // (1 << 24)).to_numpy()
        ids = rows["correlationId"].fill_null(0).to_numpy()
        number = otherwise.copy()
        for n, one in enumerate(self.processes):
            here = (process == one) & (ids != 0)
            number[here] = np.searchsorted(self.first_ids[n], ids[here], side="right")
        return number


def _first_ids(borders: npt.NDArray[np.int64], read: ReadPiece) -> pl.DataFrame:
    """Process, slice and lowest id of the calls in a piece."""
    calls = read().drop_nulls().filter(pl.col("correlationId") != 0)
    number = np.searchsorted(borders, calls["start"].to_numpy(), side="right")
    keyed = calls.select(
        process=pl.col("globalTid") // (1 << 24), slice=pl.Series(number).cast(pl.Int64), id="correlationId"
    )
    return keyed.group_by("process", "slice").agg(pl.col("id").min())

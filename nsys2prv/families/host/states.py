"""State records: the activity of each host thread and stream, one state at a time."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.families.device.kernels import is_communication
from nsys2prv.families.device.synchronization import RECORD, sync_records
from nsys2prv.families.device_work import CALL_KEYS, DEVICE_KEYS, DEVICE_TABLES
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.host.cuda_api import CALL_THAT_WAITS
from nsys2prv.families.mpi.mpi import COLUMNS as MPI_COLUMNS
from nsys2prv.families.mpi.mpi import TABLES as MPI_TABLES
from nsys2prv.families.nvtx_events import NVTX_READS
from nsys2prv.families.source import Source
from nsys2prv.families.source_tables import TableColumns
from nsys2prv.intervals.shortest import ends_of
from nsys2prv.intervals.spans import flatten
from nsys2prv.model.frames import STATE, States
from nsys2prv.model.schemas import to_schema
from nsys2prv.model.states import (
    COMMUNICATING,
    CUDA_CALLING,
    OS_CALLING,
    RUNNING,
    SYNCHRONIZING,
    TRANSFERRING,
)
from nsys2prv.report import schema

# The state of a thread is the last of these that applies: an OS call within MPI counts as MPI.
ON_HOST = (RUNNING, OS_CALLING, CUDA_CALLING, SYNCHRONIZING, COMMUNICATING)
# A stream that does nothing has no record: Paraver takes that for idle (state 0).
ON_STREAMS = (TRANSFERRING, COMMUNICATING, RUNNING)

# ENUM_CUPTI_SYNC_TYPE of blocking calls: event, stream, context. Making a stream wait (2) does not block.
BLOCKING = (1, 3, 4)

_SPAN_COLUMNS = ("start", "end", "globalTid")
_READS: TableColumns = {
    schema.RUNTIME: tuple(dict.fromkeys((*CALL_KEYS, *_SPAN_COLUMNS, "nameId"))),
    schema.SYNCHRONIZATION: RECORD,
    schema.OSRT: _SPAN_COLUMNS,
    **NVTX_READS,
    **dict.fromkeys(MPI_TABLES, MPI_COLUMNS),
    **dict.fromkeys(schema.OPENMP.values(), _SPAN_COLUMNS),
    **dict.fromkeys(DEVICE_TABLES, DEVICE_KEYS),
    schema.KERNEL: (*DEVICE_KEYS, "shortName", "demangledName"),
}


def _frames(source: Source, state: None) -> Frames[None]:
    calls = _host_intervals(source).drop_nulls("globalTid")
    threads = source.places.threads(calls["globalTid"])
    yield _flattened(calls.with_columns(threads.alias("place")), ON_HOST)
    yield _flattened(_device_intervals(source), ON_STREAMS)


def _host_intervals(source: Source) -> pl.DataFrame:
    """Return start, end, globalTid, state of all host intervals; RUNNING from first to last event of a thread."""
    calls = source.table(schema.RUNTIME)
    names = calls["nameId"].unique()
    waiting = names.filter(source.texts(names).str.contains(CALL_THAT_WAITS))
    called = pl.when(pl.col("nameId").is_in(waiting.implode())).then(SYNCHRONIZING).otherwise(CUDA_CALLING)
    waits = sync_records(source).filter(pl.col("kind").is_in(BLOCKING))
    parts = [
        calls.select(*_SPAN_COLUMNS, state=called.cast(pl.Int64)),
        waits.select(*_SPAN_COLUMNS, state=pl.lit(SYNCHRONIZING, pl.Int64)),
        source.table(schema.OSRT).select(*_SPAN_COLUMNS, state=pl.lit(OS_CALLING, pl.Int64)),
        *(source.table(t).select(*_SPAN_COLUMNS, state=pl.lit(COMMUNICATING, pl.Int64)) for t in MPI_TABLES),
    ]
    # Ranges and OpenMP's events only say that a thread is alive.
    alive = [source.ranges(), *map(source.table, schema.OPENMP.values())]
    known = pl.concat(part.select(_SPAN_COLUMNS) for part in (*parts, *alive)).with_columns(
        pl.col("end").fill_null(pl.col("start"))
    )
    running = known.group_by("globalTid").agg(pl.col("start").min(), pl.col("end").max())
    return pl.concat([*parts, running.select(*_SPAN_COLUMNS, state=pl.lit(RUNNING, pl.Int64))])


def _device_intervals(source: Source) -> pl.DataFrame:
    """Return start, end, place, state of all work of streams."""
    kernels = source.device_work(schema.KERNEL)
    kind = pl.when(is_communication(source, kernels)).then(COMMUNICATING).otherwise(RUNNING)
    states = {
        schema.KERNEL: kind,
        schema.MEMCPY: pl.lit(TRANSFERRING),
        schema.MEMSET: pl.lit(TRANSFERRING),
        schema.GRAPH_TRACE: pl.lit(RUNNING),
    }
    return pl.concat(
        source.device_work(t).select("start", "end", "place", state=state.cast(pl.Int64)) for t, state in states.items()
    )


def _flattened(intervals: pl.DataFrame, order: tuple[int, ...]) -> States:
    """Return one state at a time on each place; `order`: from the weakest state to the strongest."""
    start = intervals["start"].to_numpy()
    # As for all drawn intervals, those without length last 1 ns.
    end = ends_of(start, intervals["end"].to_numpy())
    level = intervals["state"].replace_strict({state: n for n, state in enumerate(order)}, return_dtype=pl.Int64)
    pieces = flatten(intervals["place"].cast(pl.Int64).to_numpy(), start, end, level.to_numpy())
    times = {"start": pieces.start, "end": pieces.end}
    return States(
        to_schema(pl.DataFrame({**times, "place": pieces.group, "state": np.array(order)[pieces.level]}), STATE)
    )


FAMILY = Family(
    name="states",
    title="States of threads and streams",
    draws=(),
    reads=_READS,
    emits=(),
    frames=_frames,
    makes_rows=False,
    default=False,
    within=True,
)

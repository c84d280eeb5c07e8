"""The family nccl_operations: what NCCL ran on the device, drawn on the row of the stream whose kernel ran it.

Only advanced tracing of NCCL records it. device_operations makes the operations of its rows.

Copy engines run operations without a kernel: these are on the row of the process' GPU, or if it has several on the row
of the host thread that the report names.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.families.device.kernels import chosen_kernels
from nsys2prv.families.device_work import DEVICE_KEYS
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.nccl.device_operations import as_rows, identity, kernels_of, operations_of, unsigned
from nsys2prv.families.nccl.nccl_anchors import operation_anchors
from nsys2prv.families.nccl.nccl_calls import RECV_CALL, SEND_CALL
from nsys2prv.families.nvtx_counts import nvtx_counts
from nsys2prv.families.nvtx_events import NVTX_READS
from nsys2prv.families.payloads import UNREAD
from nsys2prv.families.source import CLOCK_SLACK, Source, after
from nsys2prv.intervals.lanes import keep_lanes, lanes
from nsys2prv.intervals.shortest import end_of, ends_of
from nsys2prv.model import frames
from nsys2prv.model import nccl_operation_types as types
from nsys2prv.model.frames import OperationEnds
from nsys2prv.model.global_ids import process_of
from nsys2prv.model.interning import IDENTIFIED, SOME_WITHOUT
from nsys2prv.model.line_tags import NCCL_TAG
from nsys2prv.model.losses import Loss
from nsys2prv.model.schemas import to_schema
from nsys2prv.report import schema

_KEYS = tuple(t.key for t in types.DEVICE_OPERATION_ATTRIBUTES)
_OF_KERNEL = ("place", "stream", "began", "ended", "device")
# Paraver shows values of 53 bits exactly.
_LOWER_BITS = 2**53 - 1


class UnfinishedOperations(NamedTuple):
    """Rows and kernels that later slices need. None: none yet.

    `rows`: of operations that may get more rows, another kernel or another lane; `kernels`: of NCCL, which may have run
    later rows; `alone`: rows of finished operations without a kernel.
    """

    rows: pl.DataFrame | None = None
    kernels: pl.DataFrame | None = None
    alone: pl.DataFrame | None = None


def _frames(source: Source, state: UnfinishedOperations) -> Frames[UnfinishedOperations]:
    """Yield operations that no later slice can change on the stream of their kernel; with the last slice all others."""
    rows = after(state.rows, _rows(source, source.nccl_operations()))
    if source.slice.last and rows.is_empty() and state.alone is None:
        return state
    kernels = after(state.kernels, _kernels(source))
    operations, at = operations_of(rows)
    operations = _with_kernels(operations, kernels)
    until = source.slice.until - CLOCK_SLACK
    ended = pl.max_horizontal("end", "ended") <= until
    over = operations.select(ended | pl.lit(source.slice.last)).to_series()
    drawn = _whole_rows(operations, over, until)
    yield from _on_streams(source, operations.filter(drawn))
    without = over & operations["stream"].is_null()
    alone = after(state.alone, rows.filter(without.gather(at)))
    if source.slice.last:
        yield from _elsewhere(source, operations_of(alone)[0])
        return UnfinishedOperations()
    left = rows.filter((~drawn & ~without).gather(at))
    since = min(until, int(left["start"].min()) if left.height else until)  # type: ignore[arg-type]
    return UnfinishedOperations(left, kernels.filter(pl.col("ended") > since), alone if alone.height else None)


def _rows(source: Source, events: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of operations (see as_rows) of a slice, with an end, and count what cannot be read of them."""
    mark = pl.col("eventType").is_in(schema.MARKS)
    still_open = events.select((pl.col("end").is_null() & ~mark).sum()).item()
    source.tally.count(Loss.STILL_OPEN, still_open)
    unread_ids = events.select((pl.col("id").is_not_null() & unsigned(pl.col("id")).is_null()).sum()).item()
    source.tally.count(Loss.PAYLOAD_UNREAD, int(events[UNREAD].sum()) + unread_ids)
    last = source.last if still_open else 0
    end = pl.coalesce("end", pl.when(mark).then("start"), pl.max_horizontal("start", pl.lit(last, pl.Int64)))
    return as_rows(events.with_columns(end=end))


def _kernels(source: Source) -> pl.DataFrame:
    """Return NCCL's kernels of a slice: process, place, stream (the first of its places), began, ended, device."""
    kernels = chosen_kernels(source, nccl=True)
    return kernels.select(
        "place",
        source.places.in_first_lane(kernels["place"]).alias("stream"),
        process=process_of(pl.col("globalPid")),
        began="start",
        ended=end_of(),
        device="deviceId",
    )


def _with_kernels(operations: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """Add `place`, `stream`, `began`, `ended` and `device` of the kernel that ran each operation; null: none."""
    kernel = kernels_of(operations, kernels.select("process", "place", start="began", end="ended"))
    found = kernels.select(pl.col(c).gather(kernel) for c in _OF_KERNEL)
    return pl.concat([operations, found], how="horizontal")


def _whole_rows(operations: pl.DataFrame, over: pl.Series, until: int) -> pl.Series:
    """Return True for operations of kernels that are final: later slices change neither them nor their lane."""
    of_kernel = operations["stream"].is_not_null()
    own = operations.filter(of_kernel)
    group, start, end = _spans(own, own["stream"])
    keeps = keep_lanes(group, start, end, ~over.filter(of_kernel).to_numpy(), until)
    found = np.zeros(operations.height, dtype=np.bool_)
    found[of_kernel.to_numpy()] = keeps
    return pl.Series(found)


def _spans(
    operations: pl.DataFrame, group: pl.Series
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return group, start and end of operations; an empty one lasts 1 ns."""
    start, end = (operations[c].to_numpy() for c in ("start", "end"))
    return group.cast(pl.Int64).to_numpy(), start, ends_of(start, end)


def _on_streams(source: Source, operations: pl.DataFrame) -> Frames[None]:
    """Yield operations on the rows of their kernels' streams. Those that overlap go to further rows."""
    if operations.is_empty():
        return
    lane = lanes(*_spans(operations, operations["stream"]))
    row = source.places.in_lanes(operations["stream"], pl.Series(lane))
    yield source.intervals(_valued(source, operations).with_columns(row.alias("place")), _KEYS)
    yield _ends(source, operations)
    if source.options.anchors:
        yield operation_anchors(operations)


def _elsewhere(source: Source, operations: pl.DataFrame) -> Frames[None]:
    """Yield operations without a kernel: on the row of their process' only GPU, else of their host thread."""
    if operations.is_empty():
        return
    gpus = _only_gpus(source)
    operations = operations.join(gpus, on="process", how="left", maintain_order="left")
    valued = _valued(source, operations)
    of_gpu = valued.filter(pl.col("device").is_not_null())
    lane = lanes(*_spans(of_gpu, of_gpu.select(pl.struct("process", "device").rank("dense")).to_series()))
    places = of_gpu.select(
        pl.col("process").alias("globalPid"), pl.col("device").alias("deviceId"), lane=pl.Series(lane)
    )
    of_gpu = of_gpu.with_columns(source.places.devices(places, FAMILY.name).alias("place"))
    yield source.intervals(of_gpu, _KEYS)
    of_thread = valued.filter(pl.col("device").is_null())
    source.tally.count(Loss.OPERATION_WITHOUT_GPU, of_thread.height)
    yield source.thread_intervals(of_thread, _KEYS)
    # Without a kernel its own row and time stand for those of the kernel.
    of_thread = of_thread.with_columns(place=source.places.threads(of_thread["globalTid"].fill_null(0)))
    both = pl.concat([of_gpu, of_thread]).with_columns(began="start", ended=end_of())
    yield _ends(source, both)


def _ends(source: Source, operations: pl.DataFrame) -> OperationEnds:
    """Return a rank's part of each operation: `place`, `began` and `ended` are those of what carries it."""
    kinds = {SEND_CALL: frames.SEND, RECV_CALL: frames.RECEIVE}
    kind = pl.col("operation").replace_strict(kinds, default=frames.COLLECTIVE, return_dtype=pl.UInt8)
    message = pl.col("peer").is_not_null() | pl.col("class").fill_null("").str.contains("(?i)^p2p")
    directed = ~message | (kind != frames.COLLECTIVE)
    known = operations.filter(directed & pl.all_horizontal(pl.col("process", "communicator").is_not_null()))
    source.tally.count(Loss.NOT_MATCHED, operations.height - known.height)
    parts = known.with_columns(kind=kind, identity=identity(pl.col("id"), pl.col("sequence"), pl.col("operation")))
    without = parts.select(some=pl.col("identity").is_null().any().over("process", "communicator")).to_series()
    members = parts.with_columns(
        highest=pl.max_horizontal("peer", "root"),
        gpu="device",
        operated=pl.when(without).then(SOME_WITHOUT).otherwise(IDENTIFIED).cast(pl.Int64),
    )
    ends = parts.with_columns(
        source.members.ids(members),
        peer=pl.when(pl.col("kind") == frames.COLLECTIVE).then("root").otherwise("peer"),
        tag=pl.lit(NCCL_TAG),
        size="bytes",
        time=pl.when(pl.col("kind") == frames.RECEIVE).then("end").otherwise("start"),
        sequence=pl.lit(None, pl.Int64),
    )
    columns = {**frames.OPERATION_END, frames.IDENTITY: pl.Int64()}
    return OperationEnds(to_schema(ends, columns))


def _only_gpus(source: Source) -> pl.DataFrame:
    """Return the GPU of each process that used one alone: process, device."""
    tables = (schema.KERNEL, schema.MEMCPY, schema.MEMSET)
    pieces = (piece for table in tables for piece in source.pieces(table, DEVICE_KEYS))
    used = [p.select(process=process_of(pl.col("globalPid")), device="deviceId").unique() for p in pieces]
    every = pl.concat([pl.DataFrame(schema={"process": pl.Int64, "device": pl.Int64}), *used]).unique()
    return every.filter(pl.len().over("process") == 1)


def _valued(source: Source, operations: pl.DataFrame) -> pl.DataFrame:
    """Add the values of event types to operations."""
    kind = types.NCCL_DEVICE_OPERATION.key
    labels = {
        types.DEVICE_OPERATION_COMMUNICATOR.key: "communicator",
        types.DEVICE_OPERATION_TYPE.key: "type",
    }
    return operations.with_columns(
        *(source.labels.ids(key, operations[column]).alias(key) for key, column in labels.items()),
        source.labels.ids(kind, operations["name"]).alias("value"),
        slot=source.slot(kind),
        **{
            types.DEVICE_OPERATION_BYTES.key: pl.col("bytes"),
            types.DEVICE_OPERATION_COUNT.key: pl.col("count"),
            types.DEVICE_OPERATION_PEER.key: pl.col("peer") + 1,
            types.DEVICE_OPERATION_CHANNELS.key: pl.col("channels"),
            types.DEVICE_OPERATION_SEQUENCE.key: pl.col("sequence") + 1,
            types.DEVICE_OPERATION_ID.key: pl.col("id") & _LOWER_BITS,
        },
    )


FAMILY = Family(
    name="nccl_operations",
    title="NCCL operations on the device (advanced tracing)",
    draws=(schema.NVTX,),
    reads={schema.KERNEL: (*DEVICE_KEYS, "shortName"), **NVTX_READS},
    emits=(types.NCCL_DEVICE_OPERATION, *types.DEVICE_OPERATION_ATTRIBUTES),
    frames=_frames,
    state=UnfinishedOperations,
    count=lambda report: nvtx_counts(report).operations,
    makes_rows=False,
    seen=False,
    sliced=True,
    anchors=True,
)

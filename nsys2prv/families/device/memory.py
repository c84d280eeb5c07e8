"""Memory operations on the device: copies and memsets with kind, bytes, throughput, and the kinds of memory."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.device_work import DEVICE_KEYS
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model import event_types as types
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema

# ENUM_CUDA_MEMCPY_OPER (CUpti_ActivityMemcpyKind) -> value of MEMORY. 17 is unknown.
COPY_KINDS = {1: 5, 2: 4, 3: 7, 4: 8, 5: 9, 6: 10, 7: 11, 8: 3, 9: 12, 10: 13, 11: 14, 12: 15, 13: 16}
UNKNOWN_COPY, MEMSET_VALUE = 17, 6
# ENUM_CUDA_MEM_KIND of memory whose kind the profiler does not know: not written.
UNKNOWN_MEMORY = 7

EMITS = (
    types.MEMORY_BYTES,
    types.MEMORY_THROUGHPUT,
    types.MEMORY_SOURCE,
    types.MEMORY_DESTINATION,
    types.CORRELATION,
    types.GRAPH_NODE,
)


def _memory_kind(column: str) -> pl.Expr:
    """Return value of MEMORY_SOURCE and MEMORY_DESTINATION."""
    return pl.when(pl.col(column) < UNKNOWN_MEMORY).then(pl.col(column) + 1)


def _frames(source: Source, state: None) -> Frames[None]:
    """Yield copies and memsets as intervals on their streams."""
    columns = [*DEVICE_KEYS, "bytes", "place", "graphNodeId"]
    copies = source.device_work(schema.MEMCPY)
    kind = pl.col("copyKind").replace_strict(COPY_KINDS, default=UNKNOWN_COPY, return_dtype=pl.Int64)
    copies = copies.select(*columns, value=kind, source=_memory_kind("srcKind"), target=_memory_kind("dstKind"))
    sets = source.device_work(schema.MEMSET).select(
        *columns, value=pl.lit(MEMSET_VALUE, pl.Int64), source=pl.lit(None, pl.Int64), target=_memory_kind("memKind")
    )
    operations = pl.concat([copies, sets])
    duration = pl.max_horizontal(pl.col("end") - pl.col("start"), 1)
    frame = operations.with_columns(
        source.slot(types.MEMORY.key),
        pl.col("bytes").alias(types.MEMORY_BYTES.key),
        # Bytes a second; the type's precision makes MB/s of it.
        (pl.col("bytes").cast(pl.Float64) * 1e9 / duration)
        .round()
        .cast(pl.Int64, strict=False)
        .alias(types.MEMORY_THROUGHPUT.key),
        pl.col("source").alias(types.MEMORY_SOURCE.key),
        pl.col("target").alias(types.MEMORY_DESTINATION.key),
        pl.col("correlationId").alias(types.CORRELATION.key),
        pl.col("graphNodeId").alias(types.GRAPH_NODE.key),
    )
    lost = frame[types.MEMORY_THROUGHPUT.key].null_count() - frame["bytes"].null_count()
    source.tally.count(Loss.HUGE_THROUGHPUT, lost)
    yield source.intervals(frame, tuple(t.key for t in EMITS))


FAMILY = Family(
    name="memory",
    title="Memory operations",
    draws=(schema.MEMCPY, schema.MEMSET),
    reads={
        schema.MEMCPY: (*DEVICE_KEYS, "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId"),
        schema.MEMSET: (*DEVICE_KEYS, "bytes", "memKind", "graphNodeId"),
    },
    emits=(types.MEMORY, *EMITS),
    frames=_frames,
    public=("cuda_gpu_trace", "cuda_api_trace", "kernels"),
    sliced=True,
    work="copy",
)

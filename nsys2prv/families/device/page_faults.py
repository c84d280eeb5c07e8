"""Page faults of unified memory: the CPU's on the process' main thread, the GPU's on its metrics row.

The migrations that answer them are memory operations: see memory.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.families.calls import UNNAMED
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.intervals.lanes import lanes
from nsys2prv.intervals.shortest import ends_of
from nsys2prv.model.event_types import UM_CPU_FAULT, UM_GPU_FAULT, UM_GPU_FAULTS
from nsys2prv.model.frames import Intervals
from nsys2prv.model.global_ids import main_thread_of
from nsys2prv.report import schema

UNKNOWN_ACCESS = 5


def _frames(source: Source, state: None) -> Frames[None]:
    yield _on_cpu(source)
    yield _on_gpu(source)


def _on_cpu(source: Source) -> Intervals:
    """Make instants, labelled by the function that touched the page. The report does not name its thread."""
    faults = source.table(schema.UM_CPU_FAULTS)
    main_thread = main_thread_of(pl.col("globalPid"))
    return source.thread_intervals(
        faults.with_columns(
            end=pl.col("start") + 1,
            globalTid=main_thread,
            slot=source.slot(UM_CPU_FAULT.key),
            value=source.label_ids(UM_CPU_FAULT.key, faults["CpuInstruction"], lambda text: text.fill_null(UNNAMED)),
        )
    )


def _on_gpu(source: Source) -> Intervals:
    """Make intervals of groups of faults on one page. Intervals that overlap, by some us, go to further rows."""
    faults = source.table(schema.UM_GPU_FAULTS)
    gpu = faults.select(pl.struct("globalPid", "deviceId").rank("dense").cast(pl.Int64)).to_series().to_numpy()
    start = faults["start"].to_numpy()
    lane = lanes(gpu, start, ends_of(start, faults["end"].to_numpy()))
    places = faults.select("globalPid", "deviceId").with_columns(pl.Series("lane", lane))
    access = pl.col("faultAccessType")
    return source.intervals(
        faults.with_columns(
            source.places.devices(places, UM_GPU_FAULT.key).alias("place"),
            source.slot(UM_GPU_FAULT.key),
            pl.when(access.is_between(1, 4)).then(access).otherwise(UNKNOWN_ACCESS).alias("value"),
            pl.col("numberOfPageFaults").alias(UM_GPU_FAULTS.key),
        ),
        (UM_GPU_FAULTS.key,),
    )


FAMILY = Family(
    name="page_faults",
    title="Unified memory page faults",
    draws=(schema.UM_CPU_FAULTS, schema.UM_GPU_FAULTS),
    reads={
        schema.UM_CPU_FAULTS: ("start", "globalPid", "CpuInstruction"),
        schema.UM_GPU_FAULTS: ("start", "end", "globalPid", "deviceId", "numberOfPageFaults", "faultAccessType"),
    },
    emits=(UM_CPU_FAULT, UM_GPU_FAULT, UM_GPU_FAULTS),
    frames=_frames,
    makes_rows=False,
)

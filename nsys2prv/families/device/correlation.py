"""Lines from a CUDA call to the device activity that it launched."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.device_work import DEVICE_TABLES, DEVICE_WORK_READS
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import CLOCK_SLACK, Source
from nsys2prv.intervals.shortest import end_of
from nsys2prv.model.device_kinds import DeviceKind
from nsys2prv.model.frames import Messages
from nsys2prv.model.global_ids import pid_of
from nsys2prv.model.line_tags import CORRELATION_TAG
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema

KINDS = {
    schema.KERNEL: DeviceKind.COMPUTE,
    schema.GRAPH_TRACE: DeviceKind.COMPUTE,
    schema.MEMCPY: DeviceKind.COPY,
    schema.MEMSET: DeviceKind.MEMSET,
}


def _frames(source: Source, state: None) -> Frames[None]:
    """Yield lines from calls to the work that they launched. Note which processes have work, of which kind."""
    columns = ["start", "end", "place", "globalPid", "correlationId", "caller", "called"]
    every = pl.concat(source.device_work(t).select(columns) for t in DEVICE_TABLES)
    launched = every.drop_nulls("caller")
    for table, kind in KINDS.items():
        source.notes.working.update((p, kind) for p in source.device_work(table)["globalPid"].drop_nulls().unique())
    # Migrations of unified memory have no call, and no correlation id.
    _count(source, every.filter(pl.col("caller").is_null() & (pl.col("correlationId") > 0)), Loss.NO_CUDA_CALL)
    early = launched.filter(pl.col("called") - pl.col("start") > CLOCK_SLACK)
    _count(source, early, Loss.BEFORE_ITS_CALL, CLOCK_SLACK // 1000)
    work = launched.filter(end_of() - pl.col("start") >= source.options.reduction.min_duration)
    source.tally.count(Loss.LINE_TO_SHORT, launched.height - work.height, source.options.reduction.min_duration)
    yield Messages(
        work.select(
            time="called",
            place=source.places.threads(work["caller"]),
            received="start",
            to_place="place",
            size=pl.lit(0, pl.Int64),
            tag=pl.lit(CORRELATION_TAG, pl.Int64),
        )
    )


def _count(source: Source, work: pl.DataFrame, loss: Loss, *arguments: int) -> None:
    """Count device activities by process under a loss."""
    for process, rows in work.group_by("globalPid").len().sort("globalPid", nulls_last=True).rows():
        source.tally.count(loss, rows, *arguments, pid_of(process or 0))


FAMILY = Family(
    name="correlation",
    title="Lines from CUDA calls to device activity",
    draws=(),
    reads=DEVICE_WORK_READS,
    emits=(),
    frames=_frames,
    makes_rows=False,
    public=("cuda_api_trace",),
    sliced=True,
)

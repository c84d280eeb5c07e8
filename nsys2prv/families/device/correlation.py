"""Lines from a CUDA call to the device activity that it launched."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.family import Family, Frames, Source
from nsys2prv.families.relations import DEVICE_TABLES, DEVICE_WORK_READS
from nsys2prv.model.event_types import CORRELATION_TAG
from nsys2prv.model.frames import Messages
from nsys2prv.model.losses import Loss


def _frames(source: Source, state: None) -> Frames[None]:
    columns = ["start", "end", "place", "caller", "called"]
    launched = pl.concat(source.device_work(t).select(columns).drop_nulls("caller") for t in DEVICE_TABLES)
    work = launched.filter(pl.max_horizontal("end", pl.col("start") + 1) - pl.col("start") >= source.less.min_duration)
    source.tally.drop(Loss.LINE_TO_SHORT, launched.height - work.height, source.less.min_duration)
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

"""Lines from a CUDA call to the device activity that it launched."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.activities.family import Family, Source
from nsys2prv.activities.relations import DEVICE_TABLES, DEVICE_WORK_READS
from nsys2prv.paraver.event_types import CORRELATION_TAG
from nsys2prv.timeline.frames import Messages


def _frames(source: Source) -> Iterator[Messages]:
    work = pl.concat(
        source.device_work(t).select("start", "place", "caller", "called").drop_nulls("caller") for t in DEVICE_TABLES
    )
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
    sliced=True,
)

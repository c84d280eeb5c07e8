"""OpenMP regions of host threads: parallel regions, tasks, worksharing, synchronisation, locks."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.activities.family import Family, Source
from nsys2prv.paraver.event_types import OPENMP
from nsys2prv.report import schema
from nsys2prv.timeline.frames import Intervals

COLUMNS = ("start", "end", "globalTid", "nameId")


def _frames(source: Source) -> Iterator[Intervals]:
    regions = pl.concat(source.table(t).select(COLUMNS) for t in schema.OPENMP)
    yield source.thread_intervals(
        regions.with_columns(
            slot=pl.lit(source.slots.number(OPENMP.key)),
            value=source.label_ids(OPENMP.key, regions["nameId"]),
        )
    )


FAMILY = Family(
    name="openmp",
    title="OpenMP regions",
    draws=schema.OPENMP,
    reads=dict.fromkeys(schema.OPENMP, COLUMNS),
    emits=(OPENMP,),
    frames=_frames,
)

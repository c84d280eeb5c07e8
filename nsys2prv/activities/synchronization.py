"""CUDA synchronisation: what the calling thread waits for. The records name streams on which nothing may run."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.activities.family import Family, Source
from nsys2prv.activities.relations import CALL_KEYS, callers
from nsys2prv.paraver.event_types import SYNCHRONIZATION
from nsys2prv.report import schema
from nsys2prv.report.ids import main_thread_of
from nsys2prv.timeline.frames import Intervals

UNKNOWN = 5


def on_threads(source: Source) -> pl.DataFrame:
    """Records of synchronisation with `globalTid`, the thread of their call.

    A record without its call in the report belongs to the main thread, whose id is the process'.
    """
    records = source.table(schema.SYNCHRONIZATION).with_columns(pl.col("globalPid").fill_null(0))
    calling = callers(records, source.table(schema.RUNTIME))
    main_thread = main_thread_of(pl.col("globalPid"))
    return pl.concat([records, calling], how="horizontal").with_columns(globalTid=pl.coalesce("caller", main_thread))


def _frames(source: Source) -> Iterator[Intervals]:
    kind = pl.col("syncType")
    frame = on_threads(source).with_columns(
        slot=pl.lit(source.slots.number(SYNCHRONIZATION.key)),
        value=pl.when(kind.is_between(1, 4)).then(kind).otherwise(UNKNOWN),
    )
    yield source.thread_intervals(frame)


FAMILY = Family(
    name="synchronization",
    title="CUDA synchronisation",
    draws=(schema.SYNCHRONIZATION,),
    reads={
        schema.SYNCHRONIZATION: ("start", "end", "globalPid", "correlationId", "syncType"),
        schema.RUNTIME: CALL_KEYS,
    },
    emits=(SYNCHRONIZATION,),
    frames=_frames,
    sliced=True,
)

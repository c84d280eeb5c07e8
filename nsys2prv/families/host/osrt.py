"""OS runtime and pthread calls. Most come from helper threads that do nothing else: they make no row of their own.

Pthread calls have an event type of their own where `FamilyOptions.pthreads_apart` asks for it.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_type import EventType
from nsys2prv.model.event_types import OS_CALL, PTHREAD_CALL
from nsys2prv.model.frames import Intervals
from nsys2prv.report import schema


def _frames(source: Source, state: None) -> Frames[None]:
    calls = source.table(schema.OSRT)
    if not source.options.pthreads_apart:
        yield _calls(source, OS_CALL, calls)
        return
    named = source.report.strings.filter(pl.col("text").str.starts_with("pthread_"))["id"]
    is_pthread = pl.col("nameId").is_in(named.implode())
    yield _calls(source, OS_CALL, calls.filter(~is_pthread))
    yield _calls(source, PTHREAD_CALL, calls.filter(is_pthread))


def _calls(source: Source, event_type: EventType, calls: pl.DataFrame) -> Intervals:
    return source.thread_intervals(
        calls.with_columns(
            slot=source.slot(event_type.key),
            value=source.label_ids(event_type.key, calls["nameId"]),
        )
    )


FAMILY = Family(
    name="osrt",
    title="OS runtime calls",
    draws=(schema.OSRT,),
    reads={schema.OSRT: ("start", "end", "globalTid", "nameId")},
    emits=(OS_CALL, PTHREAD_CALL),
    frames=_frames,
    makes_rows=False,
    public=("osrt", "pthread"),
    sliced=True,
    calls="os",
)

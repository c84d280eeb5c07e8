"""OS runtime and pthread calls. Most come from helper threads that do nothing else: they make no row of their own."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.family import Family, Frames, Source
from nsys2prv.model.event_types import OS_CALL
from nsys2prv.report import schema


def _frames(source: Source, state: None) -> Frames[None]:
    calls = source.table(schema.OSRT)
    yield source.thread_intervals(
        calls.with_columns(
            slot=pl.lit(source.slots.number(OS_CALL.key)),
            value=source.label_ids(OS_CALL.key, calls["nameId"]),
        )
    )


FAMILY = Family(
    name="osrt",
    title="OS runtime calls",
    draws=(schema.OSRT,),
    reads={schema.OSRT: ("start", "end", "globalTid", "nameId")},
    emits=(OS_CALL,),
    frames=_frames,
    makes_rows=False,
    sliced=True,
    calls="os",
)

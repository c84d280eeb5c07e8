"""NVTX: push/pop ranges of every domain, start/end ranges, marks."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.activities.family import Family, Source
from nsys2prv.activities.relations import MARKS, NVTX_KEYS, PUSH_POP, START_END
from nsys2prv.paraver import event_types as types
from nsys2prv.report import Report, schema
from nsys2prv.timeline.frames import Intervals

DEFAULT_DOMAIN = "default"


def _frames(source: Source) -> Iterator[Intervals]:
    events = source.ranges()
    still_open = pl.col("end").is_null() & ~pl.col("eventType").is_in(MARKS)
    lasting = events.with_columns(end=pl.col("end").fill_null(pl.col("start")))
    if count := events.filter(still_open).height:
        source.tally.drop("still open at the end (drawn to the last event)", count)
        last = pl.max_horizontal("start", pl.lit(source.last))
        lasting = events.with_columns(end=pl.when(still_open).then(last).otherwise(lasting["end"]))
    yield from _push_pop(source, lasting.filter(pl.col("eventType").is_in(PUSH_POP)))
    yield from _one_type(source, lasting.filter(pl.col("eventType").is_in(START_END)), types.NVTX_RANGE)
    yield from _one_type(source, lasting.filter(pl.col("eventType").is_in(MARKS)), types.NVTX_MARK)


def _push_pop(source: Source, ranges: pl.DataFrame) -> Iterator[Intervals]:
    for (domain,), part in ranges.group_by("domain", maintain_order=True):
        key = types.NVTX_DOMAIN.of(str(domain) or DEFAULT_DOMAIN)
        yield source.thread_intervals(
            part.with_columns(
                slot=pl.lit(source.slots.number(key)),
                value=source.labels.ids(key, part["text"]),
            )
        )


def _one_type(source: Source, events: pl.DataFrame, kind: types.EventType) -> Iterator[Intervals]:
    yield source.thread_intervals(
        events.with_columns(
            slot=pl.lit(source.slots.number(kind.key)),
            value=source.labels.ids(kind.key, events["text"]),
        )
    )


def _count(report: Report) -> int:
    """Ranges and marks: the table also holds names of domains and threads."""
    kinds = report.table(schema.NVTX, ["eventType"])["eventType"]
    return int(kinds.is_in([*PUSH_POP, *START_END, *MARKS]).sum())


FAMILY = Family(
    name="nvtx",
    title="NVTX ranges and marks",
    draws=(schema.NVTX,),
    reads={schema.NVTX: NVTX_KEYS},
    emits=(types.NVTX_DOMAIN, types.NVTX_RANGE, types.NVTX_MARK),
    frames=_frames,
    count=_count,
    public="nvtx_pushpop_trace",
)

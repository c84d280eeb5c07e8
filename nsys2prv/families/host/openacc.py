"""OpenACC events of host threads: data, launches and other constructs, named with their place in the source."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.calls import UNNAMED, on_threads
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model import event_types as types
from nsys2prv.model.event_type import EventType
from nsys2prv.report import schema

COLUMNS = ("start", "end", "globalTid", "nameId", "lineNo", "srcFile")
TABLES = {"data": schema.OPENACC_DATA, "launch": schema.OPENACC_LAUNCH, "other": schema.OPENACC_OTHER}
# Column of the report -> event type.
NUMBERS: dict[str, dict[str, EventType]] = {
    "data": {"bytes": types.OPENACC_BYTES},
    "launch": {
        "numGangs": types.OPENACC_GANGS,
        "numWorkers": types.OPENACC_WORKERS,
        "vectorLength": types.OPENACC_VECTOR,
    },
    "other": {},
}
NAMES: dict[str, dict[str, EventType]] = {
    "data": {"varName": types.OPENACC_VARIABLE},
    "launch": {"kernelName": types.OPENACC_KERNEL},
    "other": {},
}


def _frames(source: Source, state: None) -> Frames[None]:
    for part, table in TABLES.items():
        events = on_threads(source, source.table(table))
        source.count_missing_texts(events["nameId"])
        event_type, numbers, names = types.OPENACC[part], NUMBERS[part], NAMES[part]
        frame = events.with_columns(
            source.slot(event_type.key),
            source.labels.ids(event_type.key, _constructs(source, events)).alias("value"),
            *(pl.col(c).alias(t.key) for c, t in numbers.items()),
            *(source.label_ids(t.key, events[c]).alias(t.key) for c, t in names.items()),
        )
        yield source.thread_intervals(frame, tuple(t.key for t in (*numbers.values(), *names.values())))


def _constructs(source: Source, events: pl.DataFrame) -> pl.Series:
    """Return `event@file:line`, as NVIDIA's own summary names them; the event alone where the file is not known."""
    key = ["nameId", "srcFile", "lineNo"]
    distinct = events.select(key).unique(maintain_order=True)
    name = source.texts(distinct["nameId"]).fill_null(UNNAMED)
    file = source.texts(distinct["srcFile"])
    place = pl.format("{}@{}:{}", name, file, pl.col("lineNo").fill_null(0))
    named = distinct.with_columns(construct=pl.coalesce(place, name))
    return events.select(key).join(named, on=key, how="left", nulls_equal=True, maintain_order="left")["construct"]


FAMILY = Family(
    name="openacc",
    title="OpenACC events",
    draws=tuple(TABLES.values()),
    reads={table: (*COLUMNS, *NUMBERS[part], *NAMES[part]) for part, table in TABLES.items()},
    emits=(*types.OPENACC.values(), *(t for group in (NUMBERS, NAMES) for d in group.values() for t in d.values())),
    frames=_frames,
    seen=False,
    public=("openacc",),
)

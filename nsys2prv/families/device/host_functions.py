"""Host functions of streams and graphs: on the thread that runs them, and on the stream that waits for them."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.calls import COLUMNS, call_intervals
from nsys2prv.families.device_work import DEVICE_KEYS
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import HOST_CALLBACK, HOST_WORK
from nsys2prv.report import schema

# Values of HOST_WORK.
NODE, LAUNCHED = 1, 2


def _frames(source: Source, state: None) -> Frames[None]:
    yield call_intervals(source, [schema.HOST_CALLBACKS], HOST_CALLBACK)
    waits = source.table(schema.HOST_NODES)
    frame = waits.with_columns(
        source.places.streams(waits).alias("place"),
        slot=source.slot(HOST_WORK.key),
        value=pl.when(pl.col("graphNodeId").is_null()).then(LAUNCHED).otherwise(NODE),
    )
    yield source.stream_intervals(frame, ())


FAMILY = Family(
    name="host_functions",
    title="Host functions of streams and graphs",
    draws=(schema.HOST_CALLBACKS, schema.HOST_NODES),
    reads={schema.HOST_CALLBACKS: COLUMNS, schema.HOST_NODES: (*DEVICE_KEYS, "graphNodeId")},
    emits=(HOST_CALLBACK, HOST_WORK),
    frames=_frames,
    seen=False,
    sliced=True,
)

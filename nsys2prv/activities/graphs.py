"""CUDA graph executions, where the report has them whole (graph level) instead of by node."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.activities.family import Family, Source
from nsys2prv.activities.relations import DEVICE_KEYS
from nsys2prv.paraver import event_types as types
from nsys2prv.report import schema
from nsys2prv.timeline.frames import Intervals


def _frames(source: Source) -> Iterator[Intervals]:
    executions = source.device_work(schema.GRAPH_TRACE)
    names = executions.select(pl.format("graph {}", pl.col("graphId").fill_null(0)))
    frame = executions.with_columns(
        pl.lit(source.slots.number(types.GRAPH.key)).alias("slot"),
        source.labels.ids(types.GRAPH.key, names.to_series()).alias("value"),
        pl.col("correlationId").alias(types.CORRELATION.key),
    )
    yield source.intervals(frame, (types.CORRELATION.key,))


FAMILY = Family(
    name="graphs",
    title="CUDA graphs",
    draws=(schema.GRAPH_TRACE,),
    reads={schema.GRAPH_TRACE: (*DEVICE_KEYS, "graphId")},
    emits=(types.GRAPH, types.CORRELATION),
    frames=_frames,
    public="graphs",
)

"""CUDA graph executions, if the report has whole graphs (graph level) instead of nodes."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.device_work import DEVICE_KEYS
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model import event_types as types
from nsys2prv.report import schema

HIDDEN_KERNELS = "CUDA graphs hide their kernels: record with `nsys profile --cuda-graph-trace=node` to see them"
ATTRIBUTES = {"graphId": types.GRAPH_ID, "graphExecId": types.GRAPH_EXEC, "correlationId": types.CORRELATION}


def _frames(source: Source, state: None) -> Frames[None]:
    executions = source.device_work(schema.GRAPH_TRACE)
    if executions.height:
        source.notes.remarks.append(HIDDEN_KERNELS)
    names = executions.select(pl.format("graph {}", pl.col("graphId").fill_null(0)))
    frame = executions.with_columns(
        source.slot(types.GRAPH.key),
        source.labels.ids(types.GRAPH.key, names.to_series()).alias("value"),
        **{t.key: pl.col(c) for c, t in ATTRIBUTES.items()},
    )
    yield source.intervals(frame, tuple(t.key for t in ATTRIBUTES.values()))


FAMILY = Family(
    name="graphs",
    title="CUDA graphs",
    draws=(schema.GRAPH_TRACE,),
    reads={schema.GRAPH_TRACE: (*DEVICE_KEYS, "graphId", "graphExecId")},
    emits=(types.GRAPH, *ATTRIBUTES.values()),
    frames=_frames,
    public=("graphs",),
    sliced=True,
    work="graph",
)

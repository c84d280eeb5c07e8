"""Creation, cloning and instantiation of CUDA graphs and creation of their nodes, as instants of the calling thread.

Programs may build graphs before the capture begins: reports hold records half a second older than their first call.
They would make the trace begin with an empty span, so they are left out, and counted.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.families.device_work import DEVICE_TABLES
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model import event_types as types
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema

# ENUM_NSYS_EVENT_CLASS -> value of GRAPH_CREATION.
GRAPH_VALUES = {95: 1, 96: 2, 94: 3}
NODE_CREATED, NODE_CLONED = 4, 5
ATTRIBUTE_TYPES = (types.GRAPH_ID, types.GRAPH_EXEC, types.GRAPH_NODE, types.GRAPH_ORIGINAL)


def _events(source: Source) -> pl.DataFrame:
    """Return records of both tables: start, globalTid, value, and a column an attribute."""
    class_value = pl.col("eventClass").replace_strict(GRAPH_VALUES, default=GRAPH_VALUES[95], return_dtype=pl.Int64)
    node_value = pl.when(pl.col("originalGraphNodeId").is_null()).then(NODE_CREATED).otherwise(NODE_CLONED)
    tables = (
        (schema.GRAPH_EVENTS, class_value, ("graphId", "graphExecId", None, "originalGraphId")),
        (schema.GRAPH_NODE_EVENTS, node_value.cast(pl.Int64), (None, None, "graphNodeId", "originalGraphNodeId")),
    )
    return pl.concat(
        source.table(table).select(
            "start",
            "globalTid",
            value.alias("value"),
            *(
                (pl.col(column) if column else pl.lit(None, pl.Int64)).alias(t.key)
                for column, t in zip(columns, ATTRIBUTE_TYPES, strict=True)
            ),
        )
        for table, value, columns in tables
    )


def _frames(source: Source, state: None) -> Frames[None]:
    bounds = [b for t in (schema.RUNTIME, *DEVICE_TABLES) if (b := source.report.bounds(t)) is not None]
    first = min((low for low, _ in bounds), default=None)
    events = _events(source)
    captured = events if first is None else events.filter(pl.col("start") >= first)
    source.tally.count(Loss.BEFORE_CALLS, events.height - captured.height)
    slot = source.slot(types.GRAPH_CREATION.key)
    yield source.thread_intervals(
        captured.with_columns(end=pl.col("start"), slot=slot), tuple(t.key for t in ATTRIBUTE_TYPES)
    )


FAMILY = Family(
    name="graph_creation",
    title="Creation of CUDA graphs and their nodes",
    draws=(schema.GRAPH_EVENTS, schema.GRAPH_NODE_EVENTS),
    reads={
        schema.GRAPH_EVENTS: tuple(schema.GRAPH_EVENTS.columns),
        schema.GRAPH_NODE_EVENTS: tuple(schema.GRAPH_NODE_EVENTS.columns),
    },
    emits=(types.GRAPH_CREATION, *ATTRIBUTE_TYPES),
    frames=_frames,
    makes_rows=False,
    default=False,
)

"""Order of device work by the legacy default stream, on which work waits for all blocking streams, and they for it."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.graph.edges import EdgeKind, Edges, edges_of
from nsys2prv.analysis.graph.nodes import begin_node, end_node
from nsys2prv.analysis.graph.streams import Streams, work_of_streams
from nsys2prv.model.stream_kinds import StreamKind


def default_stream_edges(run: Run, streams: Streams) -> list[Edges]:
    """Return edges between work on the null stream of a context and that of its blocking streams, by order of launch.

    Between two launches on the null stream, the first work of each blocking stream waits for the earlier launch, and
    the later launch waits for its last work.
    """
    works = run.stream_kinds.filter(pl.col("kind") != StreamKind.NON_BLOCKING)
    both = works.filter(pl.col("kind").n_unique().over("context") == 2)
    if both.is_empty():
        return []
    ordered = work_of_streams(run, streams).join(both, on="row").sort("context", "launched", "work")
    is_null = pl.col("kind") == StreamKind.NULL
    numbered = ordered.with_columns(nth=is_null.cum_sum().over("context"))
    nulls = numbered.filter(is_null).select("context", "nth", null="work")
    blocking = numbered.filter(~is_null).group_by("context", "nth", "stream", maintain_order=True)
    between = blocking.agg(first=pl.col("work").first(), last=pl.col("work").last())
    after = between.join(nulls, on=["context", "nth"])
    before = between.with_columns(pl.col("nth") + 1).join(nulls, on=["context", "nth"])
    return [
        edges_of(end_node(after["null"].to_numpy()), begin_node(after["first"].to_numpy()), EdgeKind.EVENT),
        edges_of(end_node(before["last"].to_numpy()), begin_node(before["null"].to_numpy()), EdgeKind.EVENT),
    ]

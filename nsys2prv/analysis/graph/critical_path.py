"""The critical path: the chain of binding predecessors from the end of a window back to its begin.

Its pieces fill each span of the window without a gap: their lengths sum to that of the window. As each node leads to
one predecessor, the path is found by doubling: a node, the one 1 before, those 2 and 3 before, those 4 to 7 before.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import COPY, NCCL, TEXT, Run
from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.edges import NO_EDGE, EdgeKind
from nsys2prv.analysis.graph.nodes import NO_NODE, Nodes, end_node, work_of_node
from nsys2prv.intervals.spans import Indices, Mask, Spans
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.trace_rows import NO_ROW

COMPUTE, TRANSFER, LAUNCH_LATENCY = "compute", "transfer", "launch latency"
HOST, SYNCHRONIZATION, COPYING, UNEXPLAINED = "host work", "synchronization", "copy", "unexplained"
# A lag that exceeds this is not explained by its edge (ns).
LONGEST_EXPLAINED_LAG_NS = 50_000
_KINDS = {
    EdgeKind.RUN: COMPUTE,
    EdgeKind.STREAM: LAUNCH_LATENCY,
    EdgeKind.HOST: HOST,
    EdgeKind.CALL: HOST,
    EdgeKind.EXCHANGE: TRANSFER,
    EdgeKind.LAUNCH: LAUNCH_LATENCY,
    EdgeKind.EVENT: LAUNCH_LATENCY,
    EdgeKind.SYNCHRONIZATION: SYNCHRONIZATION,
    EdgeKind.ARRIVAL: LAUNCH_LATENCY,
    EdgeKind.TRANSFER: TRANSFER,
    EdgeKind.HANDOVER: HOST,
    EdgeKind.ROOM: COMPUTE,
}
_LAGS = (EdgeKind.STREAM, EdgeKind.LAUNCH, EdgeKind.EVENT, EdgeKind.SYNCHRONIZATION)

# A piece of the path on one row: `span`: number of the window's span; `kind`: see _KINDS; `family`: of compute kernels;
# `name`: of the device work that runs or begins at its end (null: none); `node`: the node at its end, or the
# end of the kernel that runs in it and leaves no room for the next one.
PIECE = {
    "span": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "task": pl.Int64(),
    "row": pl.Int64(),
    "kind": pl.String(),
    "family": pl.String(),
    "name": pl.String(),
    "node": pl.Int64(),
}


def critical_path(run: Run, graph: Graph, window: Spans) -> pl.DataFrame:
    """Return PIECE in order of time. The pieces of each span fill it."""
    last, span = _last_nodes(graph, window), np.arange(len(window.start))
    on_path = _on_path(graph, window, last[last != NO_NODE])
    nodes = np.flatnonzero(on_path)
    at = np.searchsorted(window.end, graph.time[nodes], side="left")
    source = graph.binding[nodes]
    start = np.where(source == NO_NODE, window.start[at], np.maximum(graph.time[source], window.start[at]))
    pieces = describe_nodes(run, graph, nodes).with_columns(
        span=pl.Series(at),
        start=pl.Series(start),
        end=pl.Series(graph.time[nodes]),
        # The kernel that leaves no room runs in that piece.
        node=pl.Series(np.where(graph.binds[nodes] == EdgeKind.ROOM, end_node(work_of_node(source)), nodes)),
    )
    ended = window.start.copy()
    ended[last != NO_NODE] = graph.time[last[last != NO_NODE]]
    rest = pl.DataFrame({"span": span, "start": ended, "end": window.end}).with_columns(kind=pl.lit(UNEXPLAINED, TEXT))
    both = pl.concat([pieces, rest], how="diagonal").filter(pl.col("end") > pl.col("start"))
    return to_schema(both, PIECE).sort("start")


def _last_nodes(graph: Graph, window: Spans) -> Indices:
    """Return the node at which the path of each span ends: the last device work, or without any the last instant."""
    times = graph.of_work_or_all(graph.time)
    if not len(times):
        return np.full(len(window.start), NO_NODE, dtype=np.int64)
    order = np.argsort(times, kind="stable")
    nth = np.searchsorted(times[order], window.end, side="right") - 1
    last = np.where(nth >= 0, order[np.maximum(nth, 0)], NO_NODE)
    return np.where((last != NO_NODE) & (graph.time[last] > window.start), last, NO_NODE)


def _on_path(graph: Graph, window: Spans, last: Indices) -> Mask:
    """Mark the nodes from which a span's last node follows by binding edges, within the span."""
    count = len(graph.time)
    begin = window.start[np.minimum(np.searchsorted(window.end, graph.time, side="left"), len(window.start) - 1)]
    source, itself = graph.binding.copy(), np.arange(count, dtype=graph.binding.dtype)
    # The path of a span ends with the first node at or before its begin.
    ends = (source == NO_NODE) | (graph.time[source] <= begin)
    source[ends] = itself[ends]
    del begin, itself, ends
    marked = np.zeros(count, dtype=bool)
    marked[last] = True
    for _ in range(int(count).bit_length()):
        marked[source[np.flatnonzero(marked)]] = True
        source = source[source]
    return marked


def describe_nodes(run: Run, graph: Graph, nodes: Nodes) -> pl.DataFrame:
    """Return task, row, kind, family, name and node of the pieces that end at nodes, see PIECE; texts as TEXT."""
    kinds = pl.Series([*(str(_KINDS[kind]) for kind in EdgeKind), UNEXPLAINED], dtype=TEXT)
    binds = graph.binds[nodes]
    unknown = (binds == NO_EDGE) | (np.isin(binds, _LAGS) & (graph.lag(nodes) > LONGEST_EXPLAINED_LAG_NS))
    room = binds == EdgeKind.ROOM
    # What runs until a kernel has room is the one beside it.
    own_node = np.where(room, graph.binding[nodes], nodes)
    of_work = graph.is_work(nodes)
    chosen = run.work.select("kind", "family", "name")
    described = chosen[np.where(of_work, work_of_node(own_node), 0)] if graph.works else chosen.clear(len(nodes))
    # Where the work itself runs, its kind tells; else the edge that binds, if its lag is not too long to be explained.
    running = pl.Series(((binds == EdgeKind.RUN) | room) & of_work)
    transfer, copies, compute = (pl.lit(c, TEXT) for c in (TRANSFER, COPYING, COMPUTE))
    runs = pl.when(pl.col("kind") == NCCL).then(transfer).when(pl.col("kind") == COPY).then(copies)
    own = described.with_columns(
        pl.when(pl.Series(of_work)).then("name").alias("name"),
        runs=runs.otherwise(compute),
        usual=kinds.gather(np.where(unknown, len(EdgeKind), binds)),
    )
    return own.select(
        pl.Series("task", graph.task[nodes], dtype=pl.Int64),
        pl.Series(
            "row", np.where(graph.chain[own_node] < len(run.row_labels), graph.chain[own_node], NO_ROW), dtype=pl.Int64
        ),
        pl.when(running).then("runs").otherwise("usual").alias("kind"),
        pl.when(running & (pl.col("runs") == COMPUTE)).then("family").alias("family"),
        "name",
        pl.Series("node", nodes, dtype=pl.Int64),
    )

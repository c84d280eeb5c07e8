"""The dependency graph of a run: nodes of streams and host threads, and edges to the nodes that wait for them.

Nodes are the begin and end of each device activity, the instants of host threads (see instants), the moment at which
all ranks have come to an operation, and event records and waits of streams. The nodes of one row of the trace are a
chain in order of time; other edges cross. Each node has one binding predecessor: the one that let it happen, given the
usual lag of each kind of edge. With its measured lag on the binding edge, and at most the usual lag on others, a replay
gives the measured times back exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.frames import MPI, NCCL, Run
from nsys2prv.analysis.graph.device_order import find_markers, lane_edges, marker_edges, one_after_another, soon_after
from nsys2prv.analysis.graph.device_waits import device_waits
from nsys2prv.analysis.graph.edges import (
    LEAST_SILENCE_NS,
    NO_NODE,
    USUAL_LAG,
    EdgeKind,
    Edges,
    Nodes,
    edges_of,
    joined,
    numbers_to,
)
from nsys2prv.analysis.graph.instants import blocking_calls, instant_nodes, instants_of, streams_of, until_staged
from nsys2prv.analysis.graph.polling import polls
from nsys2prv.intervals.spans import Indices, Times
from nsys2prv.model.frames import COMPLETION, OF_COLLECTIVES, RECEIVE, SEND
from nsys2prv.run.matching.arrivals import ROLES


class Graph(NamedTuple):
    """Nodes in any order, with time (ns), task and chain. Begin and end of Run.work's row i are nodes 2 i and 2 i + 1.

    `order`: the nodes by chain and time. `before`: the node before in the chain, `along`: the kind of that edge.
    `binding`, `binds`: the binding predecessor and the kind of its edge. NO_NODE: none. `instants`: INSTANT with
    `node`; `works`: number of rows of Run.work; `device_waits`: CALLS in which host threads wait for their devices.
    """

    time: Times
    task: Nodes
    chain: Nodes
    order: Nodes
    before: Nodes
    along: npt.NDArray[np.int8]
    edges: Edges
    binding: Nodes
    binds: npt.NDArray[np.int8]
    instants: pl.DataFrame
    works: int
    # Nodes at which all ranks have come to an operation.
    hubs: Indices
    device_waits: pl.DataFrame

    def lag(self, nodes: Nodes | None = None) -> Times:
        """Return the time (ns) from the binding predecessor to each of `nodes` (None: all); 0 of one without."""
        time, binding = (self.time, self.binding) if nodes is None else (self.time[nodes], self.binding[nodes])
        # In place: of all nodes these arrays take much memory.
        lag = self.time[binding]
        np.subtract(time, lag, out=lag)
        lag[binding == NO_NODE] = 0
        return lag


def dependencies(run: Run, operations: pl.DataFrame) -> Graph:
    """Build the graph of a run. `operations`: see waiting.CARRIED. Edges that run back in time are left out."""
    streams, works, polling = streams_of(run), run.work.height, polls(run.calls)
    run = one_after_another(until_staged(run), streams)
    blocking = blocking_calls(run, streams, polling)
    instants = instants_of(run, blocking, operations).with_row_index("node", 2 * works).cast({"node": pl.Int64})
    hubs = _hubs(operations, 2 * works + instants.height)
    markers = find_markers(run, streams, blocking, 2 * works + instants.height + hubs.height)
    nodes = _nodes(run, instants, hubs, markers)
    crossing = [
        _launches(run, instants),
        *_exchanges(operations, hubs, instants),
        lane_edges(run, streams),
        *marker_edges(run, streams, blocking, markers, instants),
        _synchronizations(blocking, instants),
        _handovers(instants),
        *soon_after(run),
    ]
    return _bound(nodes, joined(crossing), instants, works, hubs["node"].to_numpy(), device_waits(run.calls, polling))


def launched_names(run: Run, graph: Graph) -> pl.DataFrame:
    """Return node and `launches`: the name of the first work that is launched at each host instant."""
    launch = graph.edges.kind == EdgeKind.LAUNCH
    work = run.work["name"].cast(pl.String).gather(graph.edges.target[launch] // 2)
    named = pl.DataFrame({"node": graph.edges.source[launch], "launches": work})
    return named.unique("node", keep="first", maintain_order=True)


class _Nodes(NamedTuple):
    time: Times
    task: Nodes
    chain: Nodes
    # True for ends of calls that wait, and of those for calls of MPI.
    ends: npt.NDArray[np.bool_]
    mpi: npt.NDArray[np.bool_]


def _nodes(run: Run, instants: pl.DataFrame, hubs: pl.DataFrame, markers: pl.DataFrame) -> _Nodes:
    """Collect the nodes of device work, host instants, operations, and event markers."""
    work, rows = run.work, len(run.row_labels)
    others = (instants, hubs, markers)
    works, count = 2 * work.height, 2 * work.height + sum(frame.height for frame in others)
    time, host = np.empty(count, dtype=np.int64), slice(works, works + instants.height)
    time[0:works:2], time[1:works:2] = work["start"].to_numpy(), work["end"].to_numpy()
    time[works:] = np.concatenate([frame["time"].to_numpy() for frame in others])
    number = numbers_to(count + rows)
    alone = np.arange(hubs.height) + rows
    behind = rows + hubs.height + markers["stream"].to_numpy()
    task, chain = (
        np.concatenate([np.repeat(one.to_numpy().astype(number), 2), *(part.astype(number) for part in parts)])
        for one, parts in (
            (work["task"], [frame["task"].to_numpy() for frame in others]),
            (work["row"], [instants["row"].to_numpy(), alone, behind]),
        )
    )
    ends, mpi = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    ends[host], mpi[host] = instants["ends"].to_numpy(), instants["mpi"].to_numpy()
    return _Nodes(time, task, chain, ends, mpi)


def _hubs(operations: pl.DataFrame, first: int) -> pl.DataFrame:
    """Return operation, node, time and task of operations in which ranks wait: when the last awaited one has come.

    MPI messages are left out: their sends and receives have edges of their own.
    """
    together = (pl.col("kind") == NCCL) | pl.col("part").is_in(OF_COLLECTIVES)
    found = operations.filter(together).sort("start", "task").group_by("operation", maintain_order=True)
    last = {c: pl.col(side).filter("awaited").last() for c, side in (("time", "start"), ("task", "task"))}
    came = (pl.col("part") != COMPLETION).sum()
    hubs = found.agg(pl.col("waits").any(), came=came, **last).filter(pl.col("came") > 1, "waits").drop_nulls("time")
    return hubs.with_row_index("node", first).cast({"node": pl.Int64})


def _launches(run: Run, instants: pl.DataFrame) -> Edges:
    work = run.work.select("caller_row", "launched").with_row_index("work").filter(pl.col("caller_row") >= 0)
    source = instant_nodes(instants, work["caller_row"], work["launched"])
    return edges_of(source, 2 * work["work"].cast(pl.Int64).to_numpy(), EdgeKind.LAUNCH)


def _exchanges(operations: pl.DataFrame, hubs: pl.DataFrame, instants: pl.DataFrame) -> list[Edges]:
    """Return the edges of operations: arrivals at hubs, transfers to ranks that wait, and MPI messages."""
    mpi = pl.col("kind") == MPI
    calls = operations.filter(mpi)
    begins, ends = (pl.Series(c, instant_nodes(instants, calls["row"], calls[c])) for c in ("start", "end"))
    kernels = operations.filter(~mpi).with_columns(begin=2 * pl.col("index"), done=2 * pl.col("index") + 1)
    sides = pl.concat([calls.with_columns(begin=begins, done=ends), kernels])
    members = sides.join(hubs.select("operation", "node"), on="operation")
    awaited, waiting = (members.filter(role) for role in ROLES)
    sends, receives = (sides.filter(mpi & (pl.col("part") == part)) for part in (SEND, RECEIVE))
    of_send = {"sent": "begin", "sent_until": "done", "receiver_is_late": "waits"}
    messages = receives.join(sends.select("operation", **of_send), on="operation")
    late = messages.filter("receiver_is_late")
    return [
        edges_of(awaited["begin"].to_numpy(), awaited["node"].to_numpy(), EdgeKind.ARRIVAL),
        edges_of(waiting["node"].to_numpy(), waiting["done"].to_numpy(), EdgeKind.TRANSFER),
        edges_of(messages["sent"].to_numpy(), messages["done"].to_numpy(), EdgeKind.TRANSFER),
        edges_of(late["begin"].to_numpy(), late["sent_until"].to_numpy(), EdgeKind.TRANSFER),
    ]


def _synchronizations(blocking: pl.DataFrame, instants: pl.DataFrame) -> Edges:
    done = blocking.drop_nulls("work")
    target = instant_nodes(instants, done["row"], done["end"])
    return edges_of(2 * done["work"].to_numpy() + 1, target, EdgeKind.SYNCHRONIZATION)


def _handovers(instants: pl.DataFrame) -> Edges:
    """Return edges from a thread that falls silent to another thread of its process that goes on after a silence.

    So PyTorch's main thread waits for its autograd thread. Threads that only poll, such as NCCL's watchdog, cause
    nothing. The first instant of a thread follows the last one of its process.
    """
    rested, rests = (pl.col("time") - pl.col("time").shift(n).over("row") for n in (1, -1))
    works = (pl.col("launches") | pl.col("mpi")).any().over("row")
    own = (
        instants.filter(works)
        .with_columns(rested=rested, rests=(-rests).fill_null(LEAST_SILENCE_NS))
        .sort("task", "time", "row")
    )
    before = [pl.col(c).shift(1).over("task").alias(f"{c}_before") for c in ("node", "row", "rests")]
    pairs = own.with_columns(before).filter(
        pl.col("row_before") != pl.col("row"),
        pl.col("rested").is_null()
        | ((pl.col("rested") >= LEAST_SILENCE_NS) & (pl.col("rests_before") >= LEAST_SILENCE_NS)),
    )
    return edges_of(pairs["node_before"].to_numpy(), pairs["node"].to_numpy(), EdgeKind.HANDOVER)


def _bound(
    nodes: _Nodes, edges: Edges, instants: pl.DataFrame, works: int, hubs: Indices, waits: pl.DataFrame
) -> Graph:
    """Order the chains, drop edges that run back in time, and find each node's binding predecessor.

    `waits`: `device_waits` of the graph.
    """
    count = len(nodes.time)
    number = numbers_to(count)
    order = np.lexsort((nodes.time, nodes.chain)).astype(number)
    before = np.full(count, NO_NODE, dtype=number)
    same = nodes.chain[order[1:]] == nodes.chain[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    along = np.full(count, EdgeKind.HOST, dtype=np.int8)
    along[nodes.ends] = np.where(nodes.mpi[nodes.ends], EdgeKind.EXCHANGE, EdgeKind.CALL)
    along[: 2 * works : 2], along[1 : 2 * works : 2] = EdgeKind.STREAM, EdgeKind.RUN
    along[2 * works + instants.height :] = EdgeKind.ARRIVAL
    forward = (edges.source >= 0) & (edges.target >= 0)
    forward &= nodes.time[edges.source] <= nodes.time[edges.target]
    kept = Edges(edges.source[forward], edges.target[forward], edges.kind[forward])
    # The latest predecessor binds; of equal ones an edge that crosses.
    allows = nodes.time[kept.source] + USUAL_LAG[kept.kind]
    latest = np.lexsort((allows, kept.target))
    last = latest[np.append(kept.target[latest][1:] != kept.target[latest][:-1], True)[: len(latest)]]
    target = kept.target[last]
    chained = nodes.time[before[target]] + USUAL_LAG[along[target]]
    crosses = (before[target] == NO_NODE) | (allows[last] >= chained)
    last, target = last[crosses], target[crosses]
    binding, binds = before.copy(), np.where(before == NO_NODE, np.int8(NO_NODE), along)
    binding[target], binds[target] = kept.source[last], kept.kind[last]
    chains = (nodes.time, nodes.task, nodes.chain, order, before, along)
    return Graph(*chains, kept, binding, binds, instants, works, hubs, waits)

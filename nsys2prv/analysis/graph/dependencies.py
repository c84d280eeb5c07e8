"""Build the dependency graph of a run: its nodes, its edges, and which edge binds each node.

Nodes are the begin and end of each device activity, the instants of host threads (see instants), the hubs of operations
(the moment at which all ranks have come to one), and event records and waits of streams. The nodes of one row of the
trace are a chain in order of time; other edges cross. Each node has one binding predecessor: the one that let it
happen, given the usual lag of each kind of edge. With its measured lag on the binding edge, and at most the usual lag
on others, a replay gives the measured times back exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.frames import MPI, NCCL, Run
from nsys2prv.analysis.graph.blocking_calls import blocking_calls, until_staged
from nsys2prv.analysis.graph.default_stream import default_stream_edges
from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.device_order import find_markers, lane_edges, marker_edges, one_after_another, soon_after
from nsys2prv.analysis.graph.device_waits import device_waits
from nsys2prv.analysis.graph.edges import LEAST_SILENCE_NS, NO_EDGE, USUAL_LAG, EdgeKind, Edges, edges_of, joined
from nsys2prv.analysis.graph.instants import instant_nodes, instants_of
from nsys2prv.analysis.graph.nodes import (
    NO_NODE,
    Nodes,
    at_begins,
    at_ends,
    begin_node,
    count_of_work,
    end_node,
    numbered,
    numbers_to,
)
from nsys2prv.analysis.graph.polling import polls
from nsys2prv.analysis.graph.room import room_edges
from nsys2prv.analysis.graph.streams import streams_of
from nsys2prv.intervals.spans import Times
from nsys2prv.model.frames import COMPLETION, OF_COLLECTIVES, RECEIVE, SEND
from nsys2prv.run.matching.arrivals import ROLES


def dependencies(run: Run, operations: pl.DataFrame) -> Graph:
    """Build the graph of a run. `operations`: see waiting.CARRIED. Edges that run back in time are left out."""
    streams, works, polling = streams_of(run), run.work.height, polls(run.calls)
    run = one_after_another(until_staged(run), streams)
    blocking = blocking_calls(run, streams, polling)
    first = count_of_work(works)
    instants = numbered(instants_of(run, blocking, operations), first)
    hubs = _hubs(operations, first + instants.height)
    markers = find_markers(run, streams, blocking, first + instants.height + hubs.height)
    nodes = _nodes(run, instants, hubs, markers)
    crossing = [
        _launches(run, instants),
        *_exchanges(operations, hubs, instants),
        lane_edges(run, streams),
        *marker_edges(run, streams, blocking, markers, instants),
        _synchronizations(blocking, instants),
        _handovers(instants),
        *soon_after(run),
        *default_stream_edges(run, streams),
    ]
    edges = _forward(joined(crossing), nodes.time)
    order, before = _chains(nodes)
    binding, binds = _bound(nodes, before, edges)
    # Only for what no other edge explains is there one of these, and it binds.
    room = room_edges(run, nodes.time, binding, binds)
    binding[room.target], binds[room.target] = room.source, room.kind
    return Graph(
        time=nodes.time,
        task=nodes.task,
        chain=nodes.chain,
        order=order,
        before=before,
        along=nodes.along,
        edges=joined([edges, room]),
        binding=binding,
        binds=binds,
        instants=instants,
        works=works,
        hubs=hubs["node"].to_numpy(),
        device_waits=device_waits(run.calls, polling),
    )


class _Nodes(NamedTuple):
    """Time (ns), task and chain of each node; `along`: the kind of the edge to it from the node before in its chain."""

    time: Times
    task: Nodes
    chain: Nodes
    along: npt.NDArray[np.int8]


def _nodes(run: Run, instants: pl.DataFrame, hubs: pl.DataFrame, markers: pl.DataFrame) -> _Nodes:
    """Collect the nodes of device work, host instants, hubs and event markers, in this order.

    A chain has the number of its row; beyond the rows each hub is a chain of its own, and the markers of each stream.
    """
    work, rows, others = run.work, len(run.row_labels), (instants, hubs, markers)
    of_work = count_of_work(work.height)
    count = of_work + sum(frame.height for frame in others)
    time = np.empty(count, dtype=np.int64)
    at_begins(time, work.height)[:], at_ends(time, work.height)[:] = work["start"].to_numpy(), work["end"].to_numpy()
    time[of_work:] = np.concatenate([frame["time"].to_numpy() for frame in others])
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
    return _Nodes(time, task, chain, _along(work.height, instants, count))


def _along(works: int, instants: pl.DataFrame, count: int) -> npt.NDArray[np.int8]:
    """Return the kind of the edge along its chain to each of `count` nodes."""
    along = np.full(count, EdgeKind.ARRIVAL, dtype=np.int8)
    at_begins(along, works)[:], at_ends(along, works)[:] = EdgeKind.STREAM, EdgeKind.RUN
    ends, mpi = instants["ends"].to_numpy(), instants["mpi"].to_numpy()
    own_cost = np.where(mpi, EdgeKind.EXCHANGE, EdgeKind.CALL)
    along[instants["node"].to_numpy()] = np.where(ends, own_cost, EdgeKind.HOST)
    return along


def _hubs(operations: pl.DataFrame, first: int) -> pl.DataFrame:
    """Return operation, node, time and task of the hubs: when the last awaited rank came to an operation with waiting.

    MPI messages are left out: their sends and receives have edges of their own.
    """
    together = (pl.col("kind") == NCCL) | pl.col("part").is_in(OF_COLLECTIVES)
    found = operations.filter(together).sort("start", "task").group_by("operation", maintain_order=True)
    last = {c: pl.col(side).filter("awaited").last() for c, side in (("time", "start"), ("task", "task"))}
    came = (pl.col("part") != COMPLETION).sum()
    hubs = found.agg(pl.col("waits").any(), came=came, **last).filter(pl.col("came") > 1, "waits").drop_nulls("time")
    return numbered(hubs, first)


def _launches(run: Run, instants: pl.DataFrame) -> Edges:
    work = run.work.select("caller_row", "launched").with_row_index("work").filter(pl.col("caller_row").is_not_null())
    source = instant_nodes(instants, work["caller_row"], work["launched"])
    return edges_of(source, begin_node(work["work"].cast(pl.Int64).to_numpy()), EdgeKind.LAUNCH)


def _exchanges(operations: pl.DataFrame, hubs: pl.DataFrame, instants: pl.DataFrame) -> list[Edges]:
    """Return the edges of operations: arrivals at hubs, transfers to ranks that wait, and MPI messages."""
    mpi = pl.col("kind") == MPI
    calls = operations.filter(mpi)
    begins, ends = (pl.Series(c, instant_nodes(instants, calls["row"], calls[c])) for c in ("start", "end"))
    kernels = operations.filter(~mpi).with_columns(begin=begin_node(pl.col("index")), done=end_node(pl.col("index")))
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
    return edges_of(end_node(done["work"].to_numpy()), target, EdgeKind.SYNCHRONIZATION)


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


def _forward(edges: Edges, time: Times) -> Edges:
    """Return the edges whose nodes the reports show, and that do not run back in time."""
    forward = (edges.source != NO_NODE) & (edges.target != NO_NODE)
    forward &= time[edges.source] <= time[edges.target]
    return Edges(edges.source[forward], edges.target[forward], edges.kind[forward])


def _chains(nodes: _Nodes) -> tuple[Nodes, Nodes]:
    """Return the nodes in order of chain and time, and the node before each in its chain (NO_NODE: none)."""
    count = len(nodes.time)
    number = numbers_to(count)
    order = np.lexsort((nodes.time, nodes.chain)).astype(number)
    before = np.full(count, NO_NODE, dtype=number)
    same = nodes.chain[order[1:]] == nodes.chain[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return order, before


def _bound(nodes: _Nodes, before: Nodes, edges: Edges) -> tuple[Nodes, npt.NDArray[np.int8]]:
    """Return the binding predecessor of each node, and the kind of its edge (NO_NODE and NO_EDGE: none).

    The predecessor that allows a node last binds; of equal ones an edge that crosses. `before`: see _chains; `edges`:
    those that cross.
    """
    allows = nodes.time[edges.source] + USUAL_LAG[edges.kind]
    latest = np.lexsort((allows, edges.target))
    last = latest[np.append(edges.target[latest][1:] != edges.target[latest][:-1], True)[: len(latest)]]
    target = edges.target[last]
    chained = nodes.time[before[target]] + USUAL_LAG[nodes.along[target]]
    crosses = (before[target] == NO_NODE) | (allows[last] >= chained)
    last, target = last[crosses], target[crosses]
    binding, binds = before.copy(), np.where(before == NO_NODE, np.int8(NO_EDGE), nodes.along)
    binding[target], binds[target] = edges.source[last], edges.kind[last]
    return binding, binds

"""Replay of the dependency graph with other lengths of its edges, for many scenarios side by side.

A node happens when its last predecessor allows it: at the latest time of a predecessor plus the length of the edge.
Most nodes have one predecessor, the node before in their chain. The others are the joins: the first nodes of chains,
and nodes at which edges from other chains end. Only the times of joins are computed; any other node follows the join
before it in its chain by the sum of the lengths between. Along a chain the times of joins are a running maximum of
(time - lengths so far). Edges between chains are applied until no time changes. As edges run forward in time, this is
done for blocks of joins of neighboring times, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nsys2prv.analysis.dependencies import Graph
from nsys2prv.analysis.edges import NO_NODE
from nsys2prv.intervals.spans import Indices, Mask, Times

# Joins of a block. Smaller blocks need more steps, larger ones more repetitions.
BLOCK = 128
# More than any run lasts (ns): it keeps chains apart in one running maximum.
APART = 1 << 46
# A time before all others (ns).
NEVER = -(1 << 44)


class Lengths(NamedTuple):
    """Lengths of edges (ns): along chains, of the edge into each node, and of each crossing edge."""

    along: Times
    crossing: Times


class Joins(NamedTuple):
    """The joins of a graph, in order of block, chain and time, as the replay takes them.

    `nodes`: the graph's nodes by chain and time; `first`: for each of them, True if it is the first of its chain;
    `places`: for each join, its index in `nodes`; `join`: for each of `nodes`, the last join at or before it. `time`:
    of each join (ns); `before`: the join before it in its chain. `borders`: the first join of each block, and the
    number of joins. `edges`: the crossing edges in order of their targets; `source`, `target`: the join at or before
    the source, and the join that is the target; `lead`: the source's place in `nodes`.
    """

    nodes: Indices
    first: Mask
    places: Indices
    join: Indices
    time: Times
    before: Indices
    borders: Indices
    edges: Indices
    source: Indices
    target: Indices
    lead: Indices


def find_joins(graph: Graph) -> Joins:
    """Find the joins of a graph, and put them in blocks. Joins of one time are in one block."""
    nodes = graph.order
    place = _inverse(nodes)
    first = graph.before[nodes] == NO_NODE
    joins = first.copy()
    joins[place[graph.edges.target]] = True
    by_chain = np.flatnonzero(joins)
    time = graph.time[nodes[by_chain]]
    by_time = np.sort(time)
    begins = np.unique(by_time[::BLOCK])
    order = np.argsort(np.searchsorted(begins, time, side="right"), kind="stable")
    number = _inverse(order)
    join = number[np.cumsum(joins) - 1]
    places = by_chain[order]
    lead, target = place[graph.edges.source], join[place[graph.edges.target]]
    edges = np.argsort(target, kind="stable")
    before = np.where(first[places], NO_NODE, join[places - 1])
    borders = np.append(np.searchsorted(by_time, begins), len(time))
    source = join[lead]
    return Joins(
        nodes, first, places, join, time[order], before, borders, edges, source[edges], target[edges], lead[edges]
    )


def _inverse(order: Indices) -> Indices:
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place


def measured_lengths(graph: Graph) -> Lengths:
    """Return the lengths with which a replay gives the measured times back."""
    return Lengths(*graph.usual())


def replay(joins: Joins, scenarios: Sequence[Lengths]) -> list[Times]:
    """Return the time of each node, for each scenario. Nodes without a predecessor keep their time.

    The times of joins are held for all scenarios at once; those of nodes, which are many, for one after the other.
    """
    chained = joins.before != NO_NODE
    along = np.zeros((len(joins.places), len(scenarios)), dtype=np.int64)
    crossing = np.empty((len(joins.edges), len(scenarios)), dtype=np.int64)
    for n, lengths in enumerate(scenarios):
        so_far = _so_far(joins, lengths)
        at = so_far[joins.places]
        along[chained, n] = at[chained] - at[joins.before[chained]]
        crossing[:, n] = lengths.crossing[joins.edges] + so_far[joins.lead] - at[joins.source]
    found = _replay_joins(joins, along, crossing)
    return [_of_nodes(joins, lengths, found[:, n]) for n, lengths in enumerate(scenarios)]


def _so_far(joins: Joins, lengths: Lengths) -> Times:
    """Return the sum of the lengths along a chain up to each node, in the order of `joins.nodes`."""
    so_far: Times = np.cumsum(np.where(joins.first, 0, lengths.along[joins.nodes]))
    return so_far


def _of_nodes(joins: Joins, lengths: Lengths, found: Times) -> Times:
    """Return the times of all nodes, by those of the joins."""
    so_far = _so_far(joins, lengths)
    times: Times = np.empty_like(so_far)
    times[joins.nodes] = so_far + (found - so_far[joins.places])[joins.join]
    return times


def _replay_joins(joins: Joins, along: Times, crossing: Times) -> Times:
    """Return the time of each join in each scenario. `along`, `crossing`: lengths from join to join."""
    result = np.full_like(along, NEVER)
    free = joins.before == NO_NODE
    free[joins.target] = False
    result[free] = joins.time[free][:, None]
    first_edge = np.searchsorted(joins.target, joins.borders)
    for n in range(len(joins.borders) - 1):
        first, end = int(joins.borders[n]), int(joins.borders[n + 1])
        edges = slice(first_edge[n], first_edge[n + 1])
        into = joins.source[edges], joins.target[edges] - first, crossing[edges]
        inside = into[0] >= first
        chains = _chains(joins.before[first:end], along[first:end], first)
        _replay_block(result, result[first:end], chains, _crossing(*into, ~inside), _crossing(*into, inside))
    return result


class _Crossing(NamedTuple):
    """Edges into the nodes of a block, in order of their targets; `begins`: the first edge into each of `reached`."""

    source: Indices
    length: Times
    begins: Indices
    reached: Indices

    def raised(self, result: Times, nodes: Times) -> None:
        """Raise the times of the block's nodes to what the edges allow."""
        if len(self.source):
            come = np.maximum.reduceat(result[self.source] + self.length, self.begins, axis=0)
            nodes[self.reached] = np.maximum(nodes[self.reached], come)


def _crossing(source: Indices, target: Indices, length: Times, chosen: Mask) -> _Crossing:
    """Return the chosen edges. `target`: place of the node within the block."""
    source, target, length = source[chosen], target[chosen], length[chosen]
    begins = np.flatnonzero(np.append(True, target[1:] != target[:-1])[: len(target)])
    return _Crossing(source, length, begins, target[begins])


class _Chains(NamedTuple):
    """The chains of a block that go on from earlier blocks, and the lengths so far, chains apart."""

    entering: Indices
    before: Indices
    along: Times
    so_far: Times


def _chains(before: Indices, along: Times, first: int) -> _Chains:
    begins = np.ones(len(before), dtype=bool)
    begins[1:] = before[1:] != np.arange(first, first + len(before) - 1)
    entering = np.flatnonzero(begins & (before != NO_NODE))
    # Each chain lies so far behind the one before it that the running maximum never reaches from one to the next.
    so_far = np.cumsum(np.where(begins[:, None], 0, along), axis=0) - APART * (np.cumsum(begins) - 1)[:, None]
    return _Chains(entering, before[entering], along[entering], so_far)


def _replay_block(result: Times, own: Times, chains: _Chains, earlier: _Crossing, inner: _Crossing) -> None:
    """Find the times of a block's nodes (`own`, a part of `result`), given those of all earlier ones.

    `earlier`, `inner`: edges from earlier blocks, and within the block.
    """
    start = own.copy()
    start[chains.entering] = np.maximum(start[chains.entering], result[chains.before] + chains.along)
    earlier.raised(result, start)
    while True:
        found = start.copy()
        inner.raised(result, found)
        found = np.maximum.accumulate(found - chains.so_far, axis=0) + chains.so_far
        if (own == found).all():
            return
        own[:] = found

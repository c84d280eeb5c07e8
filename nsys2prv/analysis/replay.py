"""Replay of the dependency graph with other lengths of its edges, for many scenarios side by side.

A node happens when the last of its predecessors plus the edge's length has come. Along a chain this is a running
maximum of (time - lengths so far); edges that cross chains are taken in by repeating until nothing changes. As edges
run forward in time, this is done for blocks of nodes of neighboring times, one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nsys2prv.analysis.dependencies import Graph
from nsys2prv.analysis.edges import NO_NODE
from nsys2prv.intervals.spans import Indices, Mask, Times

# Nodes of a block. Smaller blocks need more steps, larger ones more repetitions.
BLOCK = 512
# More than any run lasts (ns), to keep chains apart in one running maximum, and a time before all others.
APART = 1 << 46
NEVER = -(1 << 44)


class Lengths(NamedTuple):
    """Lengths of edges (ns): along chains, of the edge into each node (nodes, scenarios), and crossing (edges, ...)."""

    along: Times
    crossing: Times


def measured_lengths(graph: Graph, scenarios: int = 1) -> Lengths:
    """Return the lengths with which a replay gives the measured times back, once for each scenario."""
    along, crossing = graph.usual()
    return Lengths(*(np.repeat(lengths[:, None], scenarios, axis=1) for lengths in (along, crossing)))


def replay(graph: Graph, lengths: Lengths) -> Times:
    """Return the time of each node in each scenario (nodes, scenarios). Nodes without a predecessor keep their time."""
    order, borders = _blocks(graph)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    source, target = place[graph.edges.source], place[graph.edges.target]
    by_target = np.argsort(target, kind="stable")
    source, target, crossing = source[by_target], target[by_target], lengths.crossing[by_target]
    result = np.full((len(order), lengths.along.shape[1]), NEVER, dtype=np.int64)
    before = np.where(graph.before[order] == NO_NODE, NO_NODE, place[graph.before[order]])
    free = before == NO_NODE
    free[target] = False
    result[free] = graph.time[order][free][:, None]
    along = lengths.along[order]
    first_edge = np.searchsorted(target, borders)
    for n in range(len(borders) - 1):
        first, end = int(borders[n]), int(borders[n + 1])
        edges = slice(first_edge[n], first_edge[n + 1])
        into = source[edges], target[edges] - first, crossing[edges]
        inside = into[0] >= first
        chains = _chains(before[first:end], along[first:end], first)
        _replay_block(result, result[first:end], chains, _crossing(*into, ~inside), _crossing(*into, inside))
    return result[place]


def _blocks(graph: Graph) -> tuple[Indices, Indices]:
    """Return the nodes by block, chain and time, and the borders of the blocks. Nodes of one time are in one block."""
    by_time = np.sort(graph.time)
    begins = np.unique(by_time[::BLOCK])
    block = np.searchsorted(begins, graph.time, side="right")
    order = np.lexsort((graph.time, graph.chain, block))
    return order, np.append(np.searchsorted(by_time, begins), len(by_time))


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

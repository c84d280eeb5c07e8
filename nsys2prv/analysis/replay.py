"""Replay of the dependency graph with other lengths of its edges, for many scenarios side by side.

A node happens when its last predecessor allows it: at the latest time of a predecessor plus the length of the edge.
Most nodes have one predecessor, the node before in their chain. The others are the joins: the first nodes of chains,
and nodes at which edges from other chains end. Only the times of joins are computed; any other node follows the join
before it in its chain by the sum of the lengths between. Along a chain the times of joins are a running maximum of
(time - lengths so far). Edges between chains are applied until no time changes. As edges run forward in time, this is
done for blocks of joins of neighboring times, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nsys2prv.analysis.dependencies import Graph
from nsys2prv.analysis.edges import NO_NODE, USUAL_LAG, Nodes
from nsys2prv.errors import UsageError
from nsys2prv.intervals.grouped import LONGEST_AXIS
from nsys2prv.intervals.spans import Indices, Mask, Times

# Joins of a block. Smaller blocks need more steps, larger ones more repetitions.
JOINS_OF_BLOCK = 128
# Blocks that are prepared at once: more take more memory, fewer more time.
BLOCKS_AT_ONCE = 256
# More than nearly any run lasts (ns): it keeps chains apart in one running maximum.
CHAIN_DISTANCE_NS = 1 << 46
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
    the source, and the join that is the target; `lead`: the source's place in `nodes`. `apart`: far more than all
    measured times (ns).
    """

    nodes: Nodes
    first: Mask
    places: Nodes
    join: Nodes
    time: Times
    before: Nodes
    borders: Indices
    edges: Nodes
    source: Nodes
    target: Nodes
    lead: Nodes
    apart: int


def find_joins(graph: Graph) -> Joins:
    """Find the joins of a graph, and put them in blocks. Joins of one time are in one block."""
    nodes, number = graph.order, np.result_type(graph.order, graph.edges.source)
    place = _inverse(nodes)
    first = graph.before[nodes] == NO_NODE
    joins = first.copy()
    joins[place[graph.edges.target]] = True
    by_chain = np.flatnonzero(joins).astype(number)
    time = graph.time[nodes[by_chain]]
    by_time = np.sort(time)
    begins = np.unique(by_time[::JOINS_OF_BLOCK])
    borders = np.append(np.searchsorted(by_time, begins), len(time))
    order = np.argsort(np.searchsorted(begins, time, side="right"), kind="stable").astype(number)
    join = _inverse(order)[np.cumsum(joins, dtype=number) - 1]
    places, time = by_chain[order], time[order]
    del by_chain, by_time, order
    lead, target = place[graph.edges.source], join[place[graph.edges.target]]
    edges = np.argsort(target, kind="stable").astype(number)
    before = np.where(first[places], NO_NODE, join[places - 1]).astype(number)
    lead, target = lead[edges], target[edges]
    apart = max(CHAIN_DISTANCE_NS, 4 << int(graph.time.max(initial=0)).bit_length())
    return Joins(nodes, first, places, join, time, before, borders, edges, join[lead], target, lead, apart)


def _inverse(order: Nodes) -> Nodes:
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=order.dtype)
    return place


def measured_lengths(graph: Graph) -> Lengths:
    """Return the lengths with which a replay gives the measured times back: binding edges as long as they lasted.

    The others are at most as long as is usual for their kind.
    """
    along = graph.time - graph.time[graph.before]
    free = np.flatnonzero((graph.binding != graph.before) | (graph.binds != graph.along))
    along[free] = np.clip(along[free], 0, USUAL_LAG[graph.along[free]])
    source, target, kind = graph.edges
    crossing = graph.time[target] - graph.time[source]
    bound = (graph.binding[target] == source) & (graph.binds[target] == kind)
    return Lengths(along, np.where(bound, crossing, np.minimum(crossing, USUAL_LAG[kind])))


def replay(joins: Joins, scenarios: Sequence[Callable[[], Lengths]]) -> Iterator[Times]:
    """Yield the time of each node, for one scenario after the other. Nodes without a predecessor keep their time.

    The times of joins are held for all scenarios at once; the lengths and times of nodes, which are many, are not: each
    scenario is called for its lengths twice. Raises UsageError for times that are too long.
    """
    chained = np.flatnonzero(joins.before != NO_NODE)
    along, crossing = [], []
    for scenario in scenarios:
        lengths = scenario()
        so_far = _so_far(joins, lengths)
        at = so_far[joins.places]
        steps = np.zeros(len(at), dtype=np.int64)
        steps[chained] = at[chained] - at[joins.before[chained]]
        along.append(narrow(steps))
        crossing.append(narrow(lengths.crossing[joins.edges] + so_far[joins.lead] - at[joins.source]))
        del lengths, so_far, at, steps
    found = _replay_joins(joins, along, crossing)
    del along, crossing, chained
    for n, scenario in enumerate(scenarios):
        yield _of_nodes(joins, scenario(), found[:, n])


def narrow(lengths: Times) -> Times:
    """Return lengths in half of the memory if they fit."""
    fits = len(lengths) and np.iinfo(np.int32).min < lengths.min() and lengths.max() < np.iinfo(np.int32).max
    return lengths.astype(np.int32) if fits else lengths


def _so_far(joins: Joins, lengths: Lengths) -> Times:
    """Return the sum of the lengths along a chain up to each node, in the order of `joins.nodes`."""
    so_far = lengths.along[joins.nodes]
    so_far[joins.first] = 0
    summed: Times = np.cumsum(so_far, out=so_far)
    return summed


def _of_nodes(joins: Joins, lengths: Lengths, found: Times) -> Times:
    """Return the times of all nodes, by those of the joins."""
    so_far = _so_far(joins, lengths)
    so_far += (found - so_far[joins.places])[joins.join]
    times: Times = np.empty_like(so_far)
    times[joins.nodes] = so_far
    return times


def _replay_joins(joins: Joins, along: Sequence[Times], crossing: Sequence[Times]) -> Times:
    """Return the time of each join in each scenario. `along`, `crossing`: of each scenario, lengths between joins."""
    result = np.full((len(joins.places), len(along)), NEVER)
    free = joins.before == NO_NODE
    free[joins.target] = False
    result[free] = joins.time[free][:, None]
    for first in range(0, len(joins.borders) - 1, BLOCKS_AT_ONCE):
        for block in _blocks(joins, along, crossing, joins.borders[first : first + BLOCKS_AT_ONCE + 1]):
            _replay_block(result, block)
    if result.max(initial=0) > joins.apart // 2:
        raise too_long()
    return result


class _Crossing(NamedTuple):
    """Edges into the nodes of a block, in order of their targets; `begins`: the first edge into each of `reached`."""

    source: Nodes
    length: Times
    begins: Indices
    reached: Nodes

    def raised(self, times: Times, nodes: Times) -> bool:
        """Raise the times of the block's nodes to what the edges allow. Returns False if none has changed.

        `times`: those that `source` counts in.
        """
        if not len(self.source):
            return False
        come = times.take(self.source, axis=0)
        come += self.length
        if len(self.begins) < len(self.source):
            come = np.maximum.reduceat(come, self.begins, axis=0)
        now = nodes.take(self.reached, axis=0)
        if not (come > now).any():
            return False
        nodes[self.reached] = np.maximum(come, now)
        return True


class _Block(NamedTuple):
    """A block of joins: where it begins and ends, and for each scenario the lengths so far along its chains.

    Within the block times count from the lengths so far, so that along a chain they only rise. `earlier`, `inner`:
    edges from earlier blocks, and within the block; only sources in `inner` count from the begin of the block.
    """

    first: int
    end: int
    so_far: Times
    earlier: _Crossing
    inner: _Crossing


def _blocks(joins: Joins, along: Sequence[Times], crossing: Sequence[Times], borders: Indices) -> Iterator[_Block]:
    """Yield some neighboring blocks. What they need is made for all of them at once."""
    first, end = int(borders[0]), int(borders[-1])
    before, block = joins.before[first:end], np.repeat(np.arange(len(borders) - 1), np.diff(borders))
    begins = before != np.arange(first - 1, end - 1)
    begins[borders[:-1] - first] = True
    steps = np.column_stack([one[first:end] for one in along]).astype(np.int64, copy=False)
    so_far = _chains(begins, steps, borders, joins.apart)
    # Chains that go on from earlier blocks come in by an edge, too.
    entering = np.flatnonzero(begins & (before != NO_NODE))
    edges = slice(*np.searchsorted(joins.target, (first, end)))
    target = np.concatenate([joins.target[edges], entering + first])
    order = np.argsort(target, kind="stable")
    source = np.concatenate([joins.source[edges], before[entering]])[order]
    length = np.concatenate([np.column_stack([one[edges] for one in crossing]), steps[entering]])[order]
    target = target[order]
    low = borders[block[target - first]]
    inside = source >= low
    length -= so_far[target - first]
    length[inside] += so_far[source[inside] - first]
    earlier = _edges_of_blocks(source[~inside], target[~inside], length[~inside], borders)
    inner = _edges_of_blocks((source - low)[inside], target[inside], length[inside], borders)
    spans = zip(borders[:-1].tolist(), borders[1:].tolist(), earlier, inner, strict=True)
    for begin, until, earlier_edges, inner_edges in spans:
        yield _Block(begin, until, so_far[begin - first : until - first], earlier_edges, inner_edges)


def _chains(begins: Mask, steps: Times, borders: Indices, apart: int) -> Times:
    """Return the lengths so far along the chains of each block. `begins`: True for the first of a chain in a block."""
    so_far = _within_blocks(np.where(begins[:, None], 0, steps), borders)
    # Each chain lies so far behind the one before it that the running maximum never reaches from one to the next.
    number = _within_blocks(begins.astype(np.int64), borders)
    if int(number.max(initial=0)) * apart > LONGEST_AXIS:
        raise too_long()
    so_far -= apart * number[:, None]
    return so_far


def _within_blocks(steps: Times, borders: Indices) -> Times:
    """Return the running sums of steps from the first of each block, which itself counts 0."""
    sums = np.cumsum(steps, axis=0)
    sums -= np.repeat(sums[borders[:-1] - borders[0]], np.diff(borders), axis=0)
    return sums


def _edges_of_blocks(source: Nodes, target: Nodes, length: Times, borders: Indices) -> Iterator[_Crossing]:
    """Yield the edges into each block; they are in order of their targets."""
    begins = np.flatnonzero(np.append(True, target[1:] != target[:-1])[: len(target)])
    edges, reached = np.searchsorted(target, borders), target[begins]
    nodes = np.searchsorted(reached, borders)
    for n in range(len(borders) - 1):
        own, of_nodes = slice(edges[n], edges[n + 1]), slice(nodes[n], nodes[n + 1])
        yield _Crossing(source[own], length[own], begins[of_nodes] - edges[n], reached[of_nodes] - borders[n])


def _replay_block(result: Times, block: _Block) -> None:
    """Find the times of a block's nodes in `result`, given those of all earlier ones."""
    own = result[block.first : block.end]
    own -= block.so_far
    block.earlier.raised(result, own)
    np.maximum.accumulate(own, axis=0, out=own)
    # A way through a block has no more nodes than the block.
    for _ in range(len(own) + 2):
        if not block.inner.raised(own, own):
            own += block.so_far
            return
        np.maximum.accumulate(own, axis=0, out=own)
    raise too_long()


def too_long() -> UsageError:
    """Return the error for times beyond what a replay can tell apart."""
    return UsageError("times are too long to replay; choose smaller factors, or a part of the run with --time")

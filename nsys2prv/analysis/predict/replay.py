"""Replay of the dependency graph with other lengths of its edges, for many scenarios side by side.

A node happens when its last predecessor allows it: at the latest time of a predecessor plus the length of the edge. How
much later it happens than the lengths along its chain add up to is its delay: it only rises along a chain, and where it
does is a join. Only the delays of forks are found step by step (see joins). Edges between chains are applied to them
until no delay changes. As edges run forward in time, this is done for blocks of forks of neighboring times, one after
the other. The delays of other joins follow from those of the forks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.edges import USUAL_LAG
from nsys2prv.analysis.graph.nodes import NO_NODE, Nodes
from nsys2prv.analysis.predict.joins import Forks, Joins
from nsys2prv.errors import UsageError
from nsys2prv.intervals.grouped import LONGEST_AXIS
from nsys2prv.intervals.spans import Indices, Mask, Times, first_of_equals

# Blocks that are prepared at once: more take more memory, fewer more time.
BLOCKS_AT_ONCE = 256


class Lengths(NamedTuple):
    """Lengths of edges (ns): along chains, of the edge into each node, and of each crossing edge."""

    along: Times
    crossing: Times


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

    The delays of forks are held for all scenarios at once; the lengths and times of nodes, which are many, are not:
    each scenario is called for its lengths twice. Raises UsageError for times that are too long.
    """
    rises = []
    for scenario in scenarios:
        lengths = scenario()
        of_edges = _rises(joins, lengths, _since_begin(joins, lengths))[joins.forks.edges]
        if np.abs(of_edges).max(initial=0) > joins.forks.longest:
            raise too_long()
        rises.append(np.maximum.reduceat(of_edges, joins.forks.bundle_begins) if len(of_edges) else of_edges)
        del lengths, of_edges
    fork_delays = _replay_forks(joins.forks, rises)
    del rises
    for n, scenario in enumerate(scenarios):
        yield _node_times(joins, scenario(), fork_delays[:, n])


def _since_begin(joins: Joins, lengths: Lengths) -> Times:
    """Return the sum of the lengths from the begin of a chain to each node, in the order of `joins.nodes`."""
    since = lengths.along[joins.nodes]
    if len(since):
        since[joins.chain_begins] = 0
        # Each chain begins at 0 again.
        since[joins.chain_begins[1:]] = -np.add.reduceat(since, joins.chain_begins)[:-1]
    summed: Times = np.cumsum(since, out=since)
    return summed


def _rises(joins: Joins, lengths: Lengths, since: Times) -> Times:
    """Return by how much the delay at the target of each of `joins.edges` is at least above that at its source.

    `since`: see _since_begin.
    """
    rises = lengths.crossing[joins.edges.edge]
    rises += since[joins.edges.source_place]
    rises -= since[joins.place_of_join[joins.edges.target_join]]
    return rises


def _node_times(joins: Joins, lengths: Lengths, fork_delays: Times) -> Times:
    """Return the times of all nodes (ns), given the delays of the forks."""
    times = _since_begin(joins, lengths)
    join_delays = fork_delays[joins.fork_of_join]
    join_delays += _beyond_forks(joins, _rises(joins, lengths, times), fork_delays)
    times += join_delays[joins.join_of_node]
    of_nodes: Times = np.empty_like(times)
    of_nodes[joins.nodes] = times
    return of_nodes


def _beyond_forks(joins: Joins, rises: Times, fork_delays: Times) -> Times:
    """Return by how much the delay of each join is above that of the last fork. `rises`: of `joins.edges`."""
    target = joins.edges.target_join
    come = fork_delays[joins.edges.source_fork]
    come += rises
    come -= fork_delays[joins.fork_of_join[target]]
    beyond = np.zeros(len(joins.is_fork), dtype=np.int64)
    begins = np.flatnonzero(first_of_equals(target))
    if len(begins):
        beyond[target[begins]] = np.maximum.reduceat(come, begins).clip(0)
    # The fork itself has none beyond; one running maximum for all, if each fork begins above what comes before it.
    beyond[joins.is_fork] = 0
    forks = np.flatnonzero(joins.is_fork)
    most = np.maximum.reduceat(beyond, forks)
    if most.sum(dtype=np.float64) > LONGEST_AXIS:
        raise too_long()
    above = np.repeat(np.cumsum(most) - most, np.diff(forks, append=len(beyond)))
    beyond += above
    np.maximum.accumulate(beyond, out=beyond)
    beyond -= above
    return beyond


def _replay_forks(forks: Forks, rises: Sequence[Times]) -> Times:
    """Return the delay of each fork in each scenario, a column each. `rises`: of the bundles, by scenario."""
    # At first a delay that stays below all others, also at the other end of an edge.
    delays = np.full((len(forks.time), len(rises)), -2 * forks.longest)
    free = forks.before == NO_NODE
    free[forks.bundle_target] = False
    delays[free] = forks.time[free][:, None]
    for first in range(0, len(forks.borders) - 1, BLOCKS_AT_ONCE):
        for block in _blocks(forks, rises, forks.borders[first : first + BLOCKS_AT_ONCE + 1]):
            _replay_block(delays, block)
    if delays.max(initial=0) > forks.longest:
        raise too_long()
    return delays


class _Crossing(NamedTuple):
    """Edges into the forks of a block, in order of their targets; `begins`: the first edge into each of `reached`."""

    source: Nodes
    length: Times
    begins: Indices
    reached: Nodes

    def raised(self, delays: Times, of_block: Times) -> bool:
        """Raise the delays `of_block`, those of its forks, to what the edges allow. Returns False if none has changed.

        `delays`: those that `source` counts in.
        """
        if not len(self.source):
            return False
        come = delays.take(self.source, axis=0)
        come += self.length
        if len(self.begins) < len(self.source):
            come = np.maximum.reduceat(come, self.begins, axis=0)
        now = of_block.take(self.reached, axis=0)
        # Of few numbers faster than `any`.
        if not np.count_nonzero(come > now):
            return False
        of_block[self.reached] = np.maximum(come, now, out=come)
        return True


class _Block(NamedTuple):
    """A block of forks: where it begins and ends, and for each fork what keeps its chain apart from those before it.

    `earlier`, `inner`: edges from earlier blocks, and within the block; only sources in `inner` count from the begin of
    the block.
    """

    first: int
    end: int
    apart: Times
    earlier: _Crossing
    inner: _Crossing


def _blocks(forks: Forks, rises: Sequence[Times], borders: Indices) -> Iterator[_Block]:
    """Yield some neighboring blocks. What they need is made for all of them at once."""
    first = int(borders[0])
    block = np.repeat(np.arange(len(borders) - 1), np.diff(borders))
    begins = _begins_in_blocks(forks, borders)
    apart = _apart(begins, borders - first, block, forks.longest)
    source, target, length = _edges_into(forks, rises, borders, begins)
    low = borders[block[target - first]]
    inside = source >= low
    length += apart[target - first][:, None]
    length[inside] -= apart[source[inside] - first][:, None]
    earlier = _edges_of_blocks(source[~inside], target[~inside], length[~inside], borders)
    inner = _edges_of_blocks((source - low)[inside], target[inside], length[inside], borders)
    spans = zip(borders[:-1].tolist(), borders[1:].tolist(), earlier, inner, strict=True)
    for begin, until, earlier_edges, inner_edges in spans:
        yield _Block(begin, until, apart[begin - first : until - first, None], earlier_edges, inner_edges)


def _begins_in_blocks(forks: Forks, borders: Indices) -> Mask:
    """Mark the forks of blocks that are the first of their chain in their block."""
    first, end = int(borders[0]), int(borders[-1])
    begins: Mask = forks.before[first:end] != np.arange(first - 1, end - 1)
    begins[borders[:-1] - first] = True
    return begins


def _apart(begins: Mask, borders: Indices, block: Indices, longest: int) -> Times:
    """Return what is added to the delay of each fork to keep its chain apart from those before it in its block.

    Each chain lies so far behind the one before it that the running maximum never reaches from one to the next.
    `begins`: see _begins_in_blocks; `borders`: the first fork of each block, from 0 on, and the number of forks;
    `block`: of each fork; `longest`: see Forks.
    """
    chain: Times = np.cumsum(begins, dtype=np.int64)
    chain -= chain[borders[:-1]][block]
    if int(chain.max(initial=0)) * 4 * longest > LONGEST_AXIS:
        raise too_long()
    return 4 * longest * chain


def _edges_into(forks: Forks, rises: Sequence[Times], borders: Indices, begins: Mask) -> tuple[Nodes, Nodes, Times]:
    """Return source, target and length of the edges into the forks of blocks, in order of their targets.

    `begins`: see _begins_in_blocks; lengths have a column a scenario.
    """
    first, end = int(borders[0]), int(borders[-1])
    before = forks.before[first:end]
    # Chains that go on from earlier blocks come in by an edge, too.
    entering = np.flatnonzero(begins & (before != NO_NODE))
    edges = slice(*np.searchsorted(forks.bundle_target, (first, end)))
    target = np.concatenate([forks.bundle_target[edges], entering + first])
    order = np.argsort(target, kind="stable")
    source = np.concatenate([forks.bundle_source[edges], before[entering]])[order]
    chained = np.zeros((len(entering), len(rises)), dtype=np.int64)
    length = np.concatenate([np.column_stack([one[edges] for one in rises]), chained])[order]
    return source, target[order], length


def _edges_of_blocks(source: Nodes, target: Nodes, length: Times, borders: Indices) -> Iterator[_Crossing]:
    """Yield the edges into each block; they are in order of their targets."""
    begins = np.flatnonzero(first_of_equals(target))
    edges, reached = np.searchsorted(target, borders), target[begins]
    forks = np.searchsorted(reached, borders)
    for n in range(len(borders) - 1):
        of_block, of_forks = slice(edges[n], edges[n + 1]), slice(forks[n], forks[n + 1])
        yield _Crossing(source[of_block], length[of_block], begins[of_forks] - edges[n], reached[of_forks] - borders[n])


def _replay_block(delays: Times, block: _Block) -> None:
    """Find the delays of a block's forks in `delays`, given those of all earlier ones."""
    of_block = delays[block.first : block.end]
    of_block += block.apart
    block.earlier.raised(delays, of_block)
    np.maximum.accumulate(of_block, axis=0, out=of_block)
    # A way through a block has no more forks than the block.
    for _ in range(len(of_block) + 2):
        if not block.inner.raised(of_block, of_block):
            of_block -= block.apart
            return
        np.maximum.accumulate(of_block, axis=0, out=of_block)
    raise too_long()


def too_long() -> UsageError:
    """Return the error for times beyond what a replay can tell apart."""
    return UsageError("times are too long to replay; choose smaller factors, or a part of the run with --time")

"""Joins and forks: the nodes of a dependency graph whose times a replay has to find. Those of the others follow.

The nodes of one row of the trace are a chain, in order of time. Most nodes have one predecessor, the node before in
their chain: a delay of that one is theirs.

- A join is a node that may wait for more: the first node of a chain, and each at which an edge from another chain ends.
- A fork is a join whose delay goes on to other chains: the first node of a chain, and each join with an edge to another
  chain, from itself or from a node between it and the next join of its chain.

The delay of a join that is no fork reaches other chains only through the next fork of its own chain. So a replay goes
from fork to fork.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nsys2prv.analysis.graph.dependencies import Graph
from nsys2prv.analysis.graph.edges import NO_NODE, Nodes
from nsys2prv.intervals.spans import Indices, Mask, Times, first_of_equals

# Forks of a block. Smaller blocks need more steps, larger ones more repetitions.
FORKS_OF_BLOCK = 64
# More than nearly any run lasts (ns), or would last.
LONGEST_RUN_NS = 1 << 45


class Forks(NamedTuple):
    """The forks of a graph, in order of block, chain and time, and what they wait for.

    `time`: of each fork (ns); `before`: the fork before it in its chain; `borders`: the first fork of each block, and
    the number of forks. `edges`: the edges (places in Joins.edges) that end at a fork, or behind the fork before it, in
    order of fork and source; `bundles`: the first of each bundle of those from one fork to one fork; `source`,
    `target`: the forks of each bundle. `longest`: the longest delay that is replayed (ns).
    """

    time: Times
    before: Nodes
    borders: Indices
    edges: Nodes
    bundles: Indices
    source: Nodes
    target: Nodes
    longest: int


class Joins(NamedTuple):
    """The joins of a graph, in order of chain and time, and its forks.

    `nodes`: the graph's nodes by chain and time; `begins`: the first one of each chain; `join`: for each of them, the
    last join at or before it; `places`: for each join, its index in `nodes`; `fork`: for each join, the last fork at or
    before it. `is_fork`: for each join. `edges`: the crossing edges in order of their targets; `lead`: the source's
    place in `nodes`; `source`, `target`: the fork at or before the source, and the join that is the target.
    """

    nodes: Nodes
    begins: Indices
    join: Nodes
    places: Nodes
    fork: Nodes
    is_fork: Mask
    edges: Nodes
    lead: Nodes
    source: Nodes
    target: Nodes
    forks: Forks


def find_joins(graph: Graph) -> Joins:
    """Find the joins of a graph, and put its forks in blocks. Forks of one time are in one block."""
    nodes, number = graph.order, np.result_type(graph.order, graph.edges.source)
    place = _inverse(nodes)
    first = graph.before[nodes] == NO_NODE
    is_join = first.copy()
    is_join[place[graph.edges.target]] = True
    join, places = np.cumsum(is_join, dtype=number) - 1, np.flatnonzero(is_join).astype(number)
    lead, target = place[graph.edges.source], join[place[graph.edges.target]]
    edges = np.argsort(target, kind="stable").astype(number)
    lead, target = lead[edges], target[edges]
    is_fork = first[places]
    is_fork[join[lead]] = True
    time = graph.time[nodes[places[is_fork]]]
    order, borders = _blocks(time)
    position = _inverse(order.astype(number))
    passed = np.cumsum(is_fork, dtype=number)
    fork = position[passed - 1]
    source = fork[join[lead]]
    # The next fork, at or behind the target.
    following = passed[target] - is_fork[target]
    chained = np.append(~first[places[is_fork]], False)
    ends = np.flatnonzero(is_fork[target] | chained[following])
    waiting = position[following[ends]]
    by_fork = np.lexsort((source[ends], waiting))
    waiting, ends = waiting[by_fork], ends[by_fork].astype(number)
    bundles = np.flatnonzero(first_of_equals(waiting) | first_of_equals(source[ends]))
    before = np.where(chained[:-1], np.append(NO_NODE, position[:-1])[: len(position)], NO_NODE)[order]
    forks = Forks(
        time=time[order],
        before=before.astype(number),
        borders=borders,
        edges=ends,
        bundles=bundles,
        source=source[ends[bundles]],
        target=waiting[bundles],
        longest=max(LONGEST_RUN_NS, 2 << int(graph.time.max(initial=0)).bit_length()),
    )
    return Joins(nodes, np.flatnonzero(first), join, places, fork, is_fork, edges, lead, source, target, forks)


def _blocks(time: Times) -> tuple[Indices, Indices]:
    """Return the order of forks by block, and where blocks begin in it, with the number of forks. `time`: theirs."""
    by_time = np.sort(time)
    begins = np.unique(by_time[::FORKS_OF_BLOCK])
    order: Indices = np.argsort(np.searchsorted(begins, time, side="right"), kind="stable")
    return order, np.append(np.searchsorted(by_time, begins), len(time))


def _inverse(order: Nodes) -> Nodes:
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=order.dtype)
    return place

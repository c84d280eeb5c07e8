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

from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.nodes import NO_NODE, Nodes
from nsys2prv.intervals.spans import Indices, Mask, Times, first_of_equals

# Forks of a block. Smaller blocks need more steps, larger ones more repetitions.
FORKS_OF_BLOCK = 64
# More than nearly any run lasts (ns), or would last.
LONGEST_RUN_NS = 1 << 45


class Forks(NamedTuple):
    """The forks of a graph, in order of block, chain and time, and what they wait for.

    `time`: of each fork (ns); `before`: the fork before it in its chain; `borders`: the first fork of each block, and
    the number of forks. `edges`: the edges (indices in Joins.edges) that end at a fork, or behind the fork before it,
    in order of fork and source; `bundle_begins`: the first of each bundle of those from one fork to one fork;
    `bundle_source`, `bundle_target`: the forks of each bundle. `longest`: the longest delay that is replayed (ns).
    """

    time: Times
    before: Nodes
    borders: Indices
    edges: Nodes
    bundle_begins: Indices
    bundle_source: Nodes
    bundle_target: Nodes
    longest: int


class CrossingEdges(NamedTuple):
    """The edges between chains, in order of their targets.

    `edge`: index in Graph.edges; `source_place`: index of the source in Joins.nodes; `source_fork`: the fork at or
    before the source; `target_join`: the join that is the target.
    """

    edge: Nodes
    source_place: Nodes
    source_fork: Nodes
    target_join: Nodes


class Joins(NamedTuple):
    """The joins of a graph, in order of chain and time, and its forks.

    `nodes`: the graph's nodes by chain and time; `chain_begins`: the index in it of the first one of each chain;
    `join_of_node`: for each of them, the last join at or before it. For each join `place_of_join`, its index in
    `nodes`, `fork_of_join`, the last fork at or before it, and `is_fork`.
    """

    nodes: Nodes
    chain_begins: Indices
    join_of_node: Nodes
    place_of_join: Nodes
    fork_of_join: Nodes
    is_fork: Mask
    edges: CrossingEdges
    forks: Forks


def find_joins(graph: Graph) -> Joins:
    """Find the joins of a graph, and put its forks in blocks. Forks of one time are in one block."""
    nodes, number = graph.order, np.result_type(graph.order, graph.edges.source)
    place_of_node = _inverse(nodes)
    begins_chain = graph.before[nodes] == NO_NODE
    is_join = begins_chain.copy()
    is_join[place_of_node[graph.edges.target]] = True
    join_of_node = np.cumsum(is_join, dtype=number) - 1
    place_of_join = np.flatnonzero(is_join).astype(number)
    source_place, target = place_of_node[graph.edges.source], join_of_node[place_of_node[graph.edges.target]]
    by_target = np.argsort(target, kind="stable").astype(number)
    source_place, target = source_place[by_target], target[by_target]
    is_fork = begins_chain[place_of_join]
    is_fork[join_of_node[source_place]] = True
    place_of_fork = place_of_join[is_fork]
    time = graph.time[nodes[place_of_fork]]
    order, borders = _blocks(time)
    fork_of_join = _inverse(order.astype(number))[np.cumsum(is_fork) - 1]
    edges = CrossingEdges(by_target, source_place, fork_of_join[join_of_node[source_place]], target)
    longest = max(LONGEST_RUN_NS, 2 << int(graph.time.max(initial=0)).bit_length())
    forks = _forks(time, begins_chain[place_of_fork], is_fork, edges, order.astype(number), borders, longest)
    return Joins(
        nodes=nodes,
        chain_begins=np.flatnonzero(begins_chain),
        join_of_node=join_of_node,
        place_of_join=place_of_join,
        fork_of_join=fork_of_join,
        is_fork=is_fork,
        edges=edges,
        forks=forks,
    )


def _forks(
    time: Times, begins_chain: Mask, is_fork: Mask, edges: CrossingEdges, order: Nodes, borders: Indices, longest: int
) -> Forks:
    """Return the forks in `order` of their blocks, with `borders` of these, and the edges for which each waits.

    `time`, `begins_chain`: of each fork, in order of chain and time; `is_fork`: of each join; `longest`: see Forks.
    """
    position, target = _inverse(order), edges.target_join
    # The next fork at or behind each target, and whether it goes on with the chain of the fork before it.
    following = np.cumsum(is_fork, dtype=order.dtype)[target] - is_fork[target]
    goes_on = np.append(~begins_chain, False)
    ends = np.flatnonzero(is_fork[target] | goes_on[following])
    waiting, source = position[following[ends]], edges.source_fork[ends]
    by_fork = np.lexsort((source, waiting))
    waiting, source, ends = waiting[by_fork], source[by_fork], ends[by_fork].astype(order.dtype)
    bundles = np.flatnonzero(first_of_equals(waiting) | first_of_equals(source))
    before = np.where(goes_on[:-1], np.append(NO_NODE, position[:-1])[: len(position)], NO_NODE)[order]
    return Forks(
        time=time[order],
        before=before.astype(order.dtype),
        borders=borders,
        edges=ends,
        bundle_begins=bundles,
        bundle_source=source[bundles],
        bundle_target=waiting[bundles],
        longest=longest,
    )


def _blocks(time: Times) -> tuple[Indices, Indices]:
    """Return the order of forks by block, and where blocks begin in it, with the number of forks. `time`: of each."""
    by_time = np.sort(time)
    begins = np.unique(by_time[::FORKS_OF_BLOCK])
    order: Indices = np.argsort(np.searchsorted(begins, time, side="right"), kind="stable")
    return order, np.append(np.searchsorted(by_time, begins), len(time))


def _inverse(order: Nodes) -> Nodes:
    position = np.empty_like(order)
    position[order] = np.arange(len(order), dtype=order.dtype)
    return position

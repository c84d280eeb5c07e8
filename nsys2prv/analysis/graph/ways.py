"""Sums of lengths by label along ways: from a node back along binding predecessors to the first one on its task.

Ways are long and share most of their nodes. Every so many nodes of a way there is a stop, whose sums back to the first
node are known; from any other node it is a few steps to the next stop.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.nodes import NO_NODE, Nodes
from nsys2prv.intervals.spans import Indices, Mask, Times

# Nodes from one stop of a way to the next.
STRIDE = 64
WayLabels = npt.NDArray[np.int16]


class Ways(NamedTuple):
    """The ways of a graph. `up`: the node before each one on its way (NO_NODE: none); `first`: the first of its way.

    `label`, `length`: of the piece that ends at each node (ns); `stops`: nodes with known sums, in order; `is_stop`
    marks them; `sums`: of each stop and label, back to the first node of its way (ns).
    """

    up: Nodes
    first: Nodes
    label: WayLabels
    length: Times
    stops: Indices
    is_stop: Mask
    sums: Times

    def sums_from(self, nodes: Indices) -> Times:
        """Return the sums (ns) on the ways from nodes back to their first ones, both included: a row a node."""
        sums, stop = _to_stop(self, nodes)
        reached = np.flatnonzero(stop != NO_NODE)
        sums[reached] += self.sums[np.searchsorted(self.stops, stop[reached])]
        return sums


def find_ways(graph: Graph, label: WayLabels, labels: int) -> Ways:
    """Find the ways of a graph. `label`: of each node, a number below `labels`."""
    own = (graph.binding != NO_NODE) & (graph.task[graph.binding] == graph.task)
    up = np.where(own, graph.binding, NO_NODE).astype(graph.binding.dtype)
    first, depth = _first_and_depth(up)
    is_stop = depth % STRIDE == STRIDE - 1
    del own, depth
    stops = np.flatnonzero(is_stop)
    ways = Ways(up, first, label, graph.lag(), stops, is_stop, np.zeros((0, labels), dtype=np.int64))
    return ways._replace(sums=_sums_of_stops(ways))


def _first_and_depth(up: Nodes) -> tuple[Nodes, npt.NDArray[np.int32]]:
    """Return the first node of each node's way, and how many nodes the way has before the node.

    By doubling: each turn goes on from a node that is twice as far back as that of the turn before.
    """
    first = np.where(up != NO_NODE, up, np.arange(len(up), dtype=up.dtype))
    depth = (up != NO_NODE).astype(np.int32)
    while not np.array_equal(further := first[first], first):
        depth += depth[first]
        first = further
    return first, depth


def _sums_of_stops(ways: Ways) -> Times:
    """Return the sums from each stop back to the first node of its way. `ways`: without these sums.

    By doubling: each stop adds the sums of the next one, then of the one after as many stops as are added up, and so
    on.
    """
    sums, before = _to_stop(ways, ways.stops)
    nth = np.searchsorted(ways.stops, before)
    on = np.flatnonzero(before != NO_NODE)
    while len(on):
        sums[on] += sums[nth[on]]
        before[on], nth[on] = before[nth[on]], nth[nth[on]]
        on = on[before[on] != NO_NODE]
    return sums


def _to_stop(ways: Ways, nodes: Indices) -> tuple[Times, Indices]:
    """Return the sums on the ways from nodes to before their next stop, a row a node, and this stop (NO_NODE: none)."""
    sums = np.zeros((len(nodes), ways.sums.shape[1]), dtype=np.int64)
    stop = np.full(len(nodes), NO_NODE, dtype=np.int64)
    rows, at = np.arange(len(nodes)), nodes
    while len(rows):
        sums[rows, ways.label[at]] += ways.length[at]
        at = ways.up[at]
        here = ways.is_stop[at] & (at != NO_NODE)
        stop[rows[here]] = at[here]
        on = ~here & (at != NO_NODE)
        rows, at = rows[on], at[on]
    return sums, stop

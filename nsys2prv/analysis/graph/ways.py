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
    """The ways of a graph. `up`: the node before on the way (NO_NODE: none); `first`: the first node of the way.

    `label`, `length`: of each node, from the one before on the way; `stops`: nodes with known sums, in order; `is_stop`
    marks them; `sums`: of each stop and label (ns).
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
    number = graph.binding.dtype
    own = (graph.binding != NO_NODE) & (graph.task[graph.binding] == graph.task)
    up = np.where(own, graph.binding, NO_NODE).astype(number)
    first = np.where(own, up, np.arange(len(up), dtype=number))
    depth = own.astype(np.int32)
    while not np.array_equal(further := first[first], first):
        depth += depth[first]
        first = further
    is_stop = depth % STRIDE == STRIDE - 1
    del own, depth
    length = graph.lag()
    stops = np.flatnonzero(is_stop)
    ways = Ways(up, first, label, length, stops, is_stop, np.zeros((0, labels), dtype=np.int64))
    sums, before = _to_stop(ways, stops)
    # Each stop adds the sums of the next one, then of the one after as many stops as are added up, and so on.
    place = np.searchsorted(stops, before)
    on = np.flatnonzero(before != NO_NODE)
    while len(on):
        sums[on] += sums[place[on]]
        before[on], place[on] = before[place[on]], place[place[on]]
        on = on[before[on] != NO_NODE]
    return ways._replace(sums=sums)


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

"""The dependency graph of a run, as dependencies builds it: its nodes, its edges, and what binds each node."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.graph.edges import EdgeKind, Edges
from nsys2prv.analysis.graph.nodes import NO_NODE, Nodes, at_begins, at_ends, count_of_work, work_of_node
from nsys2prv.intervals.spans import Indices, Mask, Times

_Value = TypeVar("_Value", bound=np.generic)


class Graph(NamedTuple):
    """Nodes with time (ns), task and chain, by their number (see nodes).

    `order`: the nodes by chain and time. `before`: the node before in the chain, `along`: the kind of that edge.
    `binding`, `binds`: the binding predecessor and the kind of its edge (NO_NODE, NO_EDGE: none). `instants`: INSTANT
    with `node`; `works`: number of rows of Run.work; `hubs`: the nodes at which all ranks have come to an operation;
    `device_waits`: CALLS in which host threads wait for their devices.
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

    def is_work(self, nodes: Nodes) -> Mask:
        """Tell which of `nodes` are begins or ends of device work."""
        return nodes < count_of_work(self.works)

    def at_begins(self, values: npt.NDArray[_Value]) -> npt.NDArray[_Value]:
        """Return a view of values by node: those of the begins of device work, by row of Run.work."""
        return at_begins(values, self.works)

    def at_ends(self, values: npt.NDArray[_Value]) -> npt.NDArray[_Value]:
        """Return a view of values by node: those of the ends of device work, by row of Run.work."""
        return at_ends(values, self.works)

    def of_work_or_all(self, values: npt.NDArray[_Value]) -> npt.NDArray[_Value]:
        """Return a view of values by node: those of all device work, or of all nodes in a run without any."""
        return values[: count_of_work(self.works)] if self.works else values

    def first_launched(self) -> pl.DataFrame:
        """Return `node` and `work`: the first row of Run.work that each launching host instant launches."""
        launch = self.edges.kind == EdgeKind.LAUNCH
        work = work_of_node(self.edges.target[launch])
        launched = pl.DataFrame({"node": self.edges.source[launch], "work": work}).cast(pl.Int64)
        return launched.unique("node", keep="first", maintain_order=True)

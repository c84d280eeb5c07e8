"""The numbers of the nodes of a dependency graph.

The nodes of the device work come first: row i of Run.work begins at node 2 i and ends at node 2 i + 1. Behind them come
the instants of host threads (see instants), the hubs of operations, and the event markers of streams (see
device_order), each in the order of its frame, which names the number of a row in its column `node`.

Only this module computes with numbers of device work. Elsewhere they come from its functions and those of Graph.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

NO_NODE = -1
# Numbers of nodes: int32 while they fit, which takes half of the memory.
Nodes = npt.NDArray[np.signedinteger]
_Numbers = TypeVar("_Numbers", Nodes, pl.Expr)
_Value = TypeVar("_Value", bound=np.generic)


def numbers_to(count: int) -> type[np.signedinteger]:
    """Return the type that holds numbers below `count`, and NO_NODE."""
    return np.int32 if count < np.iinfo(np.int32).max else np.int64


def count_of_work(works: int) -> int:
    """Return how many nodes `works` rows of Run.work have: the number of the first node of anything else."""
    return 2 * works


def numbered(frame: pl.DataFrame, first: int) -> pl.DataFrame:
    """Add `node`: a number for each row, from `first` on."""
    return frame.with_row_index("node", first).cast({"node": pl.Int64})


def begin_node(work: _Numbers) -> _Numbers:
    """Return the node at which each work begins. `work`: rows of Run.work."""
    return 2 * work


def end_node(work: _Numbers) -> _Numbers:
    """Return the node at which each work ends. `work`: rows of Run.work."""
    return 2 * work + 1


def work_of_node(node: _Numbers) -> _Numbers:
    """Return the row of Run.work of each node of device work, be it the begin or the end."""
    return node // 2


def at_begins(values: npt.NDArray[_Value], works: int) -> npt.NDArray[_Value]:
    """Return a view of values by node: those of the begins of `works` rows of Run.work."""
    return values[0 : count_of_work(works) : 2]


def at_ends(values: npt.NDArray[_Value], works: int) -> npt.NDArray[_Value]:
    """Return a view of values by node: those of the ends of `works` rows of Run.work."""
    return values[1 : count_of_work(works) : 2]

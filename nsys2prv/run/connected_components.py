"""Connected components of a graph: units whose clocks were compared, reports that have something in common."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


def connected_components(count: int, edges: Iterable[tuple[int, int]]) -> npt.NDArray[np.int64]:
    """Return the connected component of each of some nodes, numbered from 0, as the number of its first node."""
    root = list(range(count))

    def find(node: int) -> int:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for a, b in edges:
        low, high = sorted((find(a), find(b)))
        root[high] = low
    return np.array([find(n) for n in range(count)], dtype=np.int64)

"""Clock offsets of single reports from offsets between pairs of them, by weighted least squares on the pairs' graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsys2prv.run.clocks.estimate import Values
from nsys2prv.run.connected_components import connected_components

Units = npt.NDArray[np.int64]

# Turns of reweighting, residual in standard errors up to which a pair has full weight (Huber), sweeps over the bounds.
REWEIGHTINGS = 10
HUBER_ERRORS = 2.0
BOUND_SWEEPS = 500


class Edge(NamedTuple):
    """The value of unit `b` minus that of unit `a`, with its standard error."""

    a: int
    b: int
    value: float
    error: float


def solve(count: int, edges: Sequence[Edge]) -> tuple[Values, Values]:
    """Solve for value and standard error of each unit against the first of its connected component, which has 0.

    Minimizes the sum of ((x_b - x_a - value) / error)^2, with the weight of pairs that contradict the others reduced.
    An error of 0 (clocks that agree to the ns, as in copies of a report) counts as the least other one.
    """
    value, error = np.zeros(count), np.zeros(count)
    if not edges:
        return value, error
    a, b = np.array([e.a for e in edges]), np.array([e.b for e in edges])
    wanted, sigma = np.array([e.value for e in edges]), np.array([e.error for e in edges])
    least = sigma[sigma > 0].min(initial=np.inf)
    sigma[sigma == 0] = least if np.isfinite(least) else 1.0
    component = connected_components(count, [(e.a, e.b) for e in edges])
    free = np.flatnonzero(component != np.arange(count))
    weight = 1 / sigma**2
    for _ in range(REWEIGHTINGS):
        normal = _laplacian(count, a, b, weight)[np.ix_(free, free)]
        pull = np.bincount(b, weight * wanted, count) - np.bincount(a, weight * wanted, count)
        value[free] = np.linalg.solve(normal, pull[free])
        scaled = np.abs(wanted - (value[b] - value[a])) / sigma
        weight = np.minimum(1, HUBER_ERRORS / np.maximum(scaled, 1e-9)) / sigma**2
    error[free] = np.sqrt(np.diag(np.linalg.inv(normal)))
    return value, error


def _laplacian(count: int, a: Units, b: Units, weight: Values) -> Values:
    """Return the graph's weighted Laplacian, the matrix of the normal equations."""
    matrix: Values = np.diag(np.bincount(a, weight, count) + np.bincount(b, weight, count))
    np.subtract.at(matrix, (a, b), weight)
    np.subtract.at(matrix, (b, a), weight)
    return matrix


def keep_bounds(value: Values, slack: dict[tuple[int, int], float]) -> Values:
    """Move the values as little as possible until no x_u - x_v exceeds slack[u, v].

    Bounds of a pair that contradict each other are ignored. Each exceeded bound in turn moves its two units by half of
    the excess, until none is exceeded. After BOUND_SWEEPS turns the rest contradicts over several pairs, and stays.
    """
    kept = {k: s for k, s in slack.items() if s + slack.get((k[1], k[0]), np.inf) >= 0}
    moved = value.copy()
    for _ in range(BOUND_SWEEPS):
        excess = 0.0
        for (u, v), limit in kept.items():
            over = moved[u] - moved[v] - limit
            if over > 0:
                moved[u] -= over / 2
                moved[v] += over / 2
                excess = max(excess, over)
        if excess < 0.5:
            break
    return moved


def farthest(value: Values, slack: dict[tuple[int, int], float], component: Units) -> Values:
    """Return how far each unit may be from its value with no x_u - x_v above slack[u, v]; infinite without a bound.

    The first unit of each connected component, `component`, stays.
    """
    room = np.where(component == np.arange(len(component)), 0.0, np.inf)
    if not slack:
        return room
    u, v = (np.array(side) for side in zip(*slack, strict=True))
    left = np.maximum(np.array(list(slack.values())) - (value[u] - value[v]), 0)
    ways = [room.copy() for _ in range(2)]
    for way, (near, far) in zip(ways, ((v, u), (u, v)), strict=True):
        # As with Bellman and Ford: each turn takes one more pair into account.
        for _ in range(len(component)):
            reached = way.copy()
            np.minimum.at(reached, far, way[near] + left)
            if np.array_equal(reached, way):
                break
            way[:] = reached
    return np.maximum(*ways)

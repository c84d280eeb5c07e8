"""Fit of offset and slope of each unit to the pairs' observations.

The model: a time t of unit u happened at  t + offset_u + slope_u * (t - epoch_u). All reports of a unit count from one
epoch: if each counted from its own start, reports that begin a second apart would seem to span a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.run.clocks.estimate import FEWEST_EDGE_VALUES, LEAST_ERROR_NS, Values, location, shortest, slope
from nsys2prv.run.clocks.graph import Edge, farthest, keep_bounds, solve
from nsys2prv.run.clocks.observations import Pair, bounds, by_unit, chosen_pairs, common, pairs_of
from nsys2prv.run.clocks.steps import Jump, Step, attribute, find_step, longer_side
from nsys2prv.run.connected_components import connected_components

# Shortest span of anchors for a slope, ns, and its confidence interval in standard errors (99.7 %).
SLOPE_SPAN = 1_000_000_000
SLOPE_ERRORS = 3.0
# If the differences of a pair spread by less, neither side is late, ns.
LEAST_LATE_SPREAD_NS = 35_000
# No clock that works runs faster or slower than this (NTP itself stays below 500 ppm).
STEEPEST_RATE = 1e-3


class Fit(NamedTuple):
    """Offset (ns) and slope (0 is none) of each unit, and which units anchors connect.

    `component`: the first of the units that anchors connect to each. `bound`: how far each offset may be off with no
    effect before its cause (ns, infinite where nothing bounds it).
    """

    offset: Values
    rate: Values
    bound: Values
    component: npt.NDArray[np.int64]
    jumps: tuple[Jump, ...] = ()
    steep: tuple[int, ...] = ()

    @property
    def aligned(self) -> list[bool]:
        """Return for each unit True if anchors connect it to another."""
        sizes = np.bincount(self.component, minlength=len(self.component))
        return [bool(sizes[p] > 1) for p in self.component]


def fit(anchors: pl.DataFrame, units: int, kinds: Sequence[str]) -> Fit:
    """Fit the units' clocks to shared anchors (see `observations.shared_anchors`).

    They also have `unit`, and its `epoch` (UTC ns). `kinds`: the kinds that count as collectives.
    """
    pairs, limits = _observe(anchors, kinds)
    jumps = attribute(_steps(pairs))
    if jumps:
        pairs, limits = _observe(longer_side(anchors, jumps), kinds)
    rate, steep = _rates(units, pairs)
    slack = _slack(limits, rate)
    edges = [*_end_edges(pairs, rate, slack), *_bound_edges(slack)]
    offset, _ = solve(units, edges)
    component = connected_components(units, [(e.a, e.b) for e in edges])
    kept = keep_bounds(offset, slack)
    return Fit(kept - kept[component], rate, farthest(kept, slack, component), component, tuple(jumps), steep)


def _observe(anchors: pl.DataFrame, kinds: Sequence[str]) -> tuple[list[Pair], pl.DataFrame]:
    """Return the pairs of units with their common operations, and the bounds by causality (see bounds)."""
    operations = by_unit(anchors, kinds)
    shared = common(operations, chosen_pairs(operations))
    return list(pairs_of(shared)), bounds(shared, anchors)


def _difference(pair: Pair) -> Values:
    """Return how much later each operation ended on `a` than on `b` (ns)."""
    return (pair.end_a - pair.end_b).astype(np.float64)


def _steps(pairs: Sequence[Pair]) -> list[Step]:
    """Return the steps between units, in UTC-aligned ns."""
    found = ((p, find_step(p.end_a.astype(np.float64), _difference(p))) for p in pairs)
    return [Step(p.a, p.b, step[0], -step[1]) for p, step in found if step is not None]


def _rates(units: int, pairs: Sequence[Pair]) -> tuple[Values, tuple[int, ...]]:
    """Return the rate of each unit (0 where no slope is supported), and the units whose slope is impossible."""
    edges = []
    for pair in pairs:
        wide = int(np.ptp(pair.elapsed_b)) >= SLOPE_SPAN
        found = slope(pair.elapsed_b.astype(np.float64), _difference(pair)) if wide else None
        if found is not None:
            edges.append(Edge(pair.a, pair.b, found.value, found.error))
    rate, error = solve(units, edges)
    steep = np.flatnonzero(np.abs(rate) > STEEPEST_RATE)
    rate[(np.abs(rate) <= SLOPE_ERRORS * error) | (np.abs(rate) > STEEPEST_RATE)] = 0
    return rate, tuple(int(u) for u in steep)


def _end_edges(pairs: Sequence[Pair], rate: Values, slack: Mapping[tuple[int, int], float]) -> list[Edge]:
    """Estimate offsets of b against a from the ends of their operations, which are equal if nobody is late."""
    values = [_difference(p) + rate[p.a] * p.elapsed_a - rate[p.b] * p.elapsed_b for p in pairs]
    spreads = [shortest(v)[1] for v in values]
    sharpest: dict[int, float] = {}
    for pair, spread in zip(pairs, spreads, strict=True):
        for unit in (pair.a, pair.b):
            sharpest[unit] = min(spread, sharpest.get(unit, np.inf))
    edges = []
    for pair, own, spread in zip(pairs, values, spreads, strict=True):
        late = 0
        if spread > LEAST_LATE_SPREAD_NS:
            late = _late_side(sharpest[pair.a] / spread, sharpest[pair.b] / spread)
            late = late or _side_within(own, -slack.get((pair.a, pair.b), np.inf), slack.get((pair.b, pair.a), np.inf))
        found = location(own, late)
        edges.append(Edge(pair.a, pair.b, found.value, found.error))
    return edges


def _late_side(a: float, b: float) -> int:
    """Return 1 if a is late, -1 if b is: the one that agrees with no unit while the other agrees with some."""
    if a > 0.5 and b < 0.25:
        return 1
    return -1 if b > 0.5 and a < 0.25 else 0


def _side_within(values: Values, least: float, most: float) -> int:
    """Return the side that is late by causality, if only one edge of the differences is possible, else 0."""
    if len(values) < FEWEST_EDGE_VALUES:
        return 0
    inside = [least <= location(values, side).value <= most for side in (1, -1)]
    if inside[0] == inside[1]:
        return 0
    return 1 if inside[0] else -1


def _slack(limits: pl.DataFrame, rate: Values) -> dict[tuple[int, int], float]:
    """Return the most by which unit u may be later than v: the least of later - sooner, slopes applied."""
    u, v = limits["sooner"].to_numpy(), limits["later"].to_numpy()
    between = (limits["later_at"] - limits["sooner_at"]).to_numpy()
    stretched = rate[v] * limits["later_elapsed"].to_numpy() - rate[u] * limits["sooner_elapsed"].to_numpy()
    table = limits.select("sooner", "later").with_columns(slack=pl.Series(between + stretched))
    least = table.group_by("sooner", "later").agg(pl.col("slack").min()).sort("sooner", "later")
    return {(u, v): s for u, v, s in least.rows()}


def _bound_edges(slack: Mapping[tuple[int, int], float]) -> list[Edge]:
    """Estimate offsets of b against a from bounds on both sides: the middle, with the error of an even spread.

    x_a - x_b <= slack[a, b] and x_b - x_a <= slack[b, a].
    """
    edges = []
    for (a, b), most in slack.items():
        other = slack.get((b, a))
        if a < b and other is not None and most + other >= 0:
            edges.append(Edge(a, b, (other - most) / 2, max((most + other) / np.sqrt(12), LEAST_ERROR_NS)))
    return edges

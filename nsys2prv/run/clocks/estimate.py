"""Estimates from differences whose noise has long tails on both sides, since delays can only lengthen them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

# Lowest error, ns: GPU times are converted no finer, and a collective has a skew of its own.
LEAST_ERROR_NS = 1_000.0
# The spread to assume of a single difference, ns.
ASSUMED_SPREAD = 100_000.0
# Blocks of time for slopes and steps, and the number of values that a block needs for a mode.
MOST_BLOCKS = 16
PER_BLOCK = 4
# Tukey's constant: 95 % efficient on normal noise, and no weight beyond it.
BISQUARE_ERRORS = 4.685
REWEIGHTINGS = 6
# Number of values that an edge needs.
FEWEST_EDGE_VALUES = 16


class Estimate(NamedTuple):
    """A value and its standard error."""

    value: float
    error: float


def shortest(values: Values) -> tuple[Values, float]:
    """Find the shortest stretch that holds a quarter of the sorted values (half of few), and its spread.

    The spread is the standard deviation that a normal distribution with such a stretch would have.
    """
    ordered = np.sort(values)
    count = len(ordered)
    share = 0.25 if count >= 16 else 0.5
    inside = min(count, max(2, int(np.ceil(count * share))))
    if inside < 2:
        return ordered, ASSUMED_SPREAD
    lengths = ordered[inside - 1 :] - ordered[: count - inside + 1]
    first = int(np.argmin(lengths))
    errors = 0.637 if share == 0.25 else 1.349
    return ordered[first : first + inside], max(float(lengths[first]) / errors, LEAST_ERROR_NS)


def location(values: Values, late: int = 0) -> Estimate:
    """Estimate the difference a - b when no side is late.

    `late`: 1 if a is late in most operations, -1 if b is. Then the estimate is the lower or upper edge, since delays
    only add. 0 if unknown: the estimate is the edge if the differences crowd against it, else their mode (which
    occasional delays of a side do not move), or their robust mean if it agrees with the mode within its error. A mode's
    error falls with the cube root of the count (Chernoff 1964), a mean's with the square root, an edge's with the
    count.
    """
    inside, spread = shortest(values)
    count = len(values)
    side = late or _crowded(values, inside)
    if side and count >= FEWEST_EDGE_VALUES:
        return _edge(values, side)
    mode = Estimate(float(np.mean(inside)), max(spread / np.cbrt(count), LEAST_ERROR_NS))
    if count < 8:
        return mode
    mean = _bisquare_mean(values, mode.value, spread)
    is_near = abs(mean - mode.value) < 2 * mode.error
    return Estimate(mean, max(spread / np.sqrt(count), LEAST_ERROR_NS)) if is_near else mode


def _crowded(values: Values, inside: Values) -> int:
    """Return 1 or -1 if the densest stretch has a tail only above or only below it, else 0."""
    low, high = inside[0], inside[-1]
    width = max(high - low, LEAST_ERROR_NS)
    above = int(np.sum((values > high) & (values <= high + width)))
    below = int(np.sum((values < low) & (values >= low - width)))
    few, many = sorted((above, below))
    if many < 12 or few * 8 > many:
        return 0
    return 1 if above > below else -1


def _edge(values: Values, side: int) -> Estimate:
    """Estimate the lower (1) or upper (-1) edge: the outermost run of values of average density."""
    ordered = np.sort(values * -side)
    count = len(ordered)
    run = max(3, count // 16)
    low, high = np.quantile(ordered, [0.1, 0.9])
    expected = max((high - low) / 0.8 * run / count, LEAST_ERROR_NS)
    spans = ordered[run - 1 :] - ordered[: count - run + 1]
    dense = np.flatnonzero(spans <= 2 * expected)
    last = int(dense[-1]) + run - 1 if len(dense) else count - 1
    return Estimate(float(ordered[last]) * -side, max(expected / 2, 2 * LEAST_ERROR_NS))


def _bisquare_mean(values: Values, start: float, spread: float) -> float:
    """Return the mean with Tukey's bisquare weights, from a first value and the spread."""
    mean = start
    for _ in range(REWEIGHTINGS):
        weight = _bisquare((values - mean) / spread)
        mean = float(np.average(values, weights=weight)) if weight.any() else mean
    return mean


def _bisquare(scaled: Values) -> Values:
    """Return Tukey's bisquare weight of residuals in multiples of the spread."""
    weights: Values = np.clip(1 - (scaled / BISQUARE_ERRORS) ** 2, 0, None) ** 2
    return weights


def block_modes(time: Values, values: Values) -> tuple[Values, Values]:
    """Return time and mode of up to MOST_BLOCKS blocks of equal count; the values are in order of time."""
    count = min(MOST_BLOCKS, len(values) // PER_BLOCK)
    if not count:
        return np.zeros(0), np.zeros(0)
    parts = np.array_split(np.arange(len(values)), count)
    at = np.array([time[p].mean() for p in parts])
    # A drift within the blocks would blur their modes: first subtract the drift of the medians.
    drift = theil_sen(at, np.array([np.median(values[p]) for p in parts]))
    flat = values - drift * time
    return at, np.array([shortest(flat[p])[0].mean() for p in parts]) + drift * at


def theil_sen(time: Values, values: Values, groups: npt.NDArray[np.int64] | None = None) -> float:
    """Return the median of the slopes between all points (of one group); 0 if there is none."""
    i, j = np.triu_indices(len(time), 1)
    good = time[j] > time[i]
    if groups is not None:
        good &= groups[i] == groups[j]
    slopes = (values[j] - values[i])[good] / (time[j] - time[i])[good]
    return float(np.median(slopes)) if len(slopes) else 0.0


def slope(time: Values, values: Values) -> Estimate | None:
    """Fit a robust slope to differences in order of time; None if they are too few to estimate its error.

    Median slope of the blocks' modes, then reweighted least squares (Tukey's bisquare). The error is the larger of that
    of the differences and that of the blocks, which grows when neighboring differences err together.
    """
    at, modes = block_modes(time, values)
    if len(at) < 4:
        return None
    rate = theil_sen(at, modes)
    intercept = float(np.median(modes - rate * at))
    weight = np.ones(len(values))
    for _ in range(REWEIGHTINGS):
        residual = values - rate * time - intercept
        inside, spread = shortest(residual)
        weight = _bisquare((residual - inside.mean()) / spread)
        rate, intercept, _ = _line(time, values, weight)
    residual = values - rate * time - intercept
    _, _, leverage = _line(time, values, weight)
    own = np.sqrt(np.average(residual**2, weights=weight)) / np.sqrt(leverage)
    return Estimate(rate, float(max(own, _block_error(time, residual, weight))))


def _line(time: Values, values: Values, weight: Values) -> tuple[float, float, float]:
    """Return slope, intercept and weighted sum of squares of the time."""
    total = weight.sum()
    center, level = weight @ time / total, weight @ values / total
    pull = weight * (time - center)
    leverage = float(pull @ (time - center))
    rate = float(pull @ (values - level)) / leverage
    return rate, float(level - rate * center), leverage


def _block_error(time: Values, residual: Values, weight: Values) -> float:
    """Estimate the error of the slope from the scatter of the means of blocks about the line."""
    parts = [
        p for p in np.array_split(np.arange(len(time)), min(MOST_BLOCKS, len(time) // PER_BLOCK)) if weight[p].any()
    ]
    at = np.array([np.average(time[p], weights=weight[p]) for p in parts])
    mean = np.array([np.average(residual[p], weights=weight[p]) for p in parts])
    leverage = float(np.sum((at - at.mean()) ** 2))
    return float(np.sqrt(np.sum(mean**2) / max(len(parts) - 2, 1) / leverage))

"""A sampled metric by kernel class: the means of classes that best explain the samples.

Kernels last 10 to 100 us and samples come every 100 us. A sample is the mean over the period that begins at its time,
so it is the mean of the kernels that ran in that period, weighted by the share of it that each took. Non-negative least
squares over all samples gives the mean of kernels of one name and length; those of a class add up to the class by time.
Averaging the samples inside kernels instead (`held`) mixes into every class what ran beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nsys2prv.analysis.frames import Sampled
from nsys2prv.analysis.metrics.fit_columns import FittedColumn
from nsys2prv.analysis.metrics.nnls import Floats
from nsys2prv.analysis.metrics.normal import Normal
from nsys2prv.analysis.metrics.sm_clock import clock_at, counts_cycles
from nsys2prv.intervals.sampling import LONG_GAP
from nsys2prv.intervals.spans import Spans, Times, time_in, times_inside

FEW = "too few samples"
SHORT = "kernels too short for this sampling rate"
NO_CLOCK = "the clock of its samples reads 0"
# A class that ran for less than this many sampling periods has no number.
MIN_PERIODS = 5.0
# Kernels of one name and length (4 fields of a FittedColumn) are a column of a fit if they ran for so many periods and
# fill half of a sample on average, those of one name (3) if they fill 0.15 of it, those of a finer class (2) in any
# case. All others of a class are one: a column that samples hardly see alone takes activity from its neighbors.
OWN_PERIODS, OWN_FILLS = 20.0, {4: 0.5, 3: 0.15, 2: 0.0}
# A class whose mean has a larger error than this has no number. Twice the error by chance must be within a tenth of the
# mean, a fiftieth of the metric's largest sample, or one unit; the whole error within a tenth, 3 points of 100, or one
# unit.
RELATIVE_LIMIT, CHANCE_LIMIT, WHOLE_LIMIT, LEAST_LIMIT = 0.1, 0.02, 0.03, 1.0
# The largest error of a mean beyond chance, as a share of it: this over the part of a sample that its kernels fill.
MODEL_ERROR = 1 / 30
# A kernel that fills the part s of a sample counts in it for its mean, give or take (1 - s) times this share of it: it
# does something else at its edges than inside. Measured on programs sampled at several rates (docs/analysis.md).
EDGE_ERROR = 1 / 15
# Samples are whole numbers, and the lowest activity reads 1: a sample may be off by half a unit.
ROUNDING_ERROR = 0.5
# The same kernels read differently by this share from run to run: clocks and caches differ.
RUN_ERROR = 0.02
# Belsley, Kuh and Welsch (Regression Diagnostics, 1980): above 30, columns cannot be told apart.
MAX_CONDITION = 30.0
FOLDS = 20
# Samples at a time, and rows of them that are added up at a time; a row of shares has up to 100 columns.
CHUNK_SAMPLES, ROWS_ADDED = 1 << 16, 1 << 11


class ClassMean(NamedTuple):
    """Mean of a metric while a class (or a group of classes that always run together) runs alone.

    `mean` and `std_error` are None if the samples do not determine them; then `note` has the reason. `samples` is the
    number of samples in which the class runs, `periods` the sum of its shares of them; `held` is their mean, weighted
    by these shares.
    """

    classes: tuple[str, ...]
    mean: float | None
    std_error: float | None
    samples: int
    periods: float
    held: float
    note: str | None = None


class MetricFit(NamedTuple):
    """The fit of one metric of one GPU, or (`device` None) of all GPUs together.

    `r2`: the share of the samples' variance that the fit explains; `r2_left_out`: the same if each iteration is
    explained by a fit without it.
    """

    device: int | None
    metric: str
    samples: int
    period_ns: int
    r2: float
    r2_left_out: float
    classes: tuple[ClassMean, ...]


class Sums(NamedTuple):
    """Sums over the samples of one metric, from which its means by class are fitted.

    `folds`: the normal equations of each fold; `touched`: for each column, the number of samples in which its class
    runs; `top`: the largest sample; `clock`: lowest and highest clock above 0.
    """

    device: int | None
    metric: str
    columns: tuple[FittedColumn, ...]
    folds: tuple[Normal, ...]
    touched: Times
    period_ns: int
    top: float
    clock: tuple[float, float]


class MetricMeans(NamedTuple):
    """Means of groups of classes with their errors, in one array each.

    `chance` is the standard error of least squares, `error` that with what the model cannot know; `filled` is the part
    of a sample that their kernels fill. The mean is NaN where the clock reads 0.
    """

    mean: Floats
    chance: Floats
    error: Floats
    filled: Floats


def sum_up(sampled: Sampled, spans: Mapping[FittedColumn, Spans], window: Spans, borders: Times) -> Sums:
    """Pass once over the samples of a metric inside the window, a chunk at a time.

    `spans` is from `column_spans`; `borders` are times between which samples are left out together (iterations) to
    check the fit.
    """
    if sampled.clock is None and counts_cycles(sampled.metric):
        # Without the clock the parts of a class are no better known than all of it, and read lower.
        spans = {column: own for column, own in spans.items() if column.name is None}
    folds = [Normal.empty(len(spans)) for _ in range(len(borders) + 1)]
    touched = np.zeros(len(spans), dtype=np.int64)
    period, top, low, high = 0, 0.0, np.inf, 0.0
    clock_of, leaves = clock_at(sampled.clock), _leaves(tuple(spans))
    for start, end, values in _intervals(sampled):
        period = period or int(np.median(end - start))
        within = time_in(window, end) - time_in(window, start) == end - start
        start, end, values = start[within], end[within], values[within]
        if not len(start):
            continue
        shares = times_inside(tuple(spans.values()), start, end)
        shares /= (end - start)[:, None]
        clock = clock_of(start)
        touched += (shares > 0).sum(axis=0)
        top = max(top, float(values.max()))
        # The least clock bounds the fitted ones, which divide: a clock that reads 0 would let them be 0.
        low, high = min(low, float(clock.min(initial=np.inf, where=clock > 0))), max(high, float(clock.max()))
        cuts = [0, *np.searchsorted(start, borders, side="left"), len(start)]
        rows = (shares, values, clock, _summed(shares, leaves))
        for fold, (first, until) in zip(folds, pairwise(cuts), strict=True):
            if until > first:
                fold.add(*(part[first:until] for part in rows))
    return Sums(sampled.device, sampled.metric, tuple(spans), tuple(folds), touched, period, top, (low, high))


def _leaves(columns: Sequence[FittedColumn]) -> list[int]:
    """Return the columns that have no parts: together they are all that runs."""
    parted = {column.owner for column in columns if column.name is not None}
    return [n for n, column in enumerate(columns) if column.name is not None or column.owner not in parted]


def _summed(shares: Floats, columns: Sequence[int]) -> Floats:
    """Return the sum of some columns of the shares of each sample."""
    # Some rows at a time: to take fresh memory for a copy of all lasts longer than to add it up.
    parts = np.array_split(shares, len(shares) // ROWS_ADDED + 1)
    return np.concatenate([part[:, columns].sum(axis=1) for part in parts])


def pooled(sums: Sequence[Sums]) -> Sums:
    """Add up the sums of several GPUs for one metric: a class that is rare on each GPU may be enough on all."""
    columns = tuple(dict.fromkeys(column for one in sums for column in one.columns))
    touched = np.zeros(len(columns), dtype=np.int64)
    folds: list[Normal] = []
    for one in sums:
        to = np.zeros((len(one.columns), len(columns)))
        at = [columns.index(column) for column in one.columns]
        to[np.arange(len(at)), at] = 1.0
        touched[at] += one.touched
        folds += [fold.times(to) for fold in one.folds]
    top = max(one.top for one in sums)
    clock = min(one.clock[0] for one in sums), max(one.clock[1] for one in sums)
    return Sums(None, sums[0].metric, columns, tuple(folds), touched, sums[0].period_ns, top, clock)


def fold_borders(low: int, high: int, iterations: Times) -> Times:
    """Return the times that part samples for the check: begins of iterations if there are some, else equal parts."""
    if len(iterations) < 2:
        return np.linspace(low, high, FOLDS // 2 + 1)[1:-1].astype(np.int64)
    inner = np.unique(iterations)
    return inner[:: -(-len(inner) // FOLDS)]


def _intervals(sampled: Sampled) -> Iterator[tuple[Times, Times, Floats]]:
    """Yield the start and end of the period of each sample, and its value, a chunk at a time."""
    held_time, held_value = np.zeros(0, np.int64), np.zeros(0, np.int64)
    period = 0
    for piece_times, piece_values in sampled.pieces():
        for low in range(0, len(piece_times), CHUNK_SAMPLES):
            times = np.concatenate([held_time, piece_times[low : low + CHUNK_SAMPLES]])
            values = np.concatenate([held_value, piece_values[low : low + CHUNK_SAMPLES]])
            held_time, held_value = times[-1:], values[-1:]
            if len(times) < 2:
                continue
            gaps = np.diff(times)
            period = period or int(np.median(gaps))
            lasting = np.where(gaps > LONG_GAP * period, period, gaps)
            yield times[:-1], times[:-1] + lasting, values[:-1].astype(np.float64)
    if period and len(held_time):
        yield held_time, held_time + period, held_value.astype(np.float64)


def solve(sums: Sums) -> MetricFit | None:
    """Return the means of a metric by class; None without samples."""
    whole = Normal.empty(len(sums.columns))
    for fold in sums.folds:
        whole = whole.plus(fold)
    if not whole.count:
        return None
    groups, parts = _parted(whole, sums)
    flat = [columns for own in parts for columns in own]
    normal = whole.grouped(flat)
    x = normal.solution()
    found = _means(whole, normal, x, normal.clocks(*sums.clock), groups, parts)
    left_out = sum(_left_out(normal, fold.grouped(flat)) for fold in sums.folds if fold.count)
    spread = normal.spread()
    means = [_mean_of(sums, whole, members, found, n) for n, members in enumerate(groups)]
    return MetricFit(
        device=sums.device,
        metric=sums.metric,
        samples=whole.count,
        period_ns=sums.period_ns,
        r2=1 - normal.residual(x) / spread if spread else 1.0,
        r2_left_out=1 - left_out / spread if spread else 1.0,
        classes=tuple(sorted(means, key=lambda m: (m.mean is None, -m.periods))),
    )


Groups = list[list[int]]


def _parted(whole: Normal, sums: Sums) -> tuple[Groups, list[Groups]]:
    """Return groups of class columns, and for each the groups of columns that the fit tells apart within it."""
    seen = [n for n in range(len(sums.columns)) if sums.touched[n]]
    # Classes without a number explain samples too: each has columns of its own.
    groups = _told_apart(whole, [[n] for n in seen if sums.columns[n].name is None])
    within: dict[str, list[int]] = {}
    for n in seen:
        if sums.columns[n].name is not None:
            within.setdefault(sums.columns[n].owner, []).append(n)
    parts = []
    for members in groups:
        own = within.get(sums.columns[members[0]].owner, []) if len(members) == 1 else []
        parts.append(_own_columns(whole, sums.columns, own) if own else [members])
    while any(len(own) > 1 for own in parts):
        condition, weak = whole.grouped([c for own in parts for c in own]).weakest()
        if condition <= MAX_CONDITION:
            break
        # The class of the weakest column becomes one column; where both are one already, the class of most columns.
        owners = [n for n, own in enumerate(parts) for _ in own]
        split = [owners[w] for w in weak if len(parts[owners[w]]) > 1]
        n = split[0] if split else max(range(len(parts)), key=lambda p: len(parts[p]))
        parts[n] = [groups[n]]
    return groups, parts


def _own_columns(whole: Normal, columns: Sequence[FittedColumn], members: Sequence[int]) -> Groups:
    """Group the parts of a class: by name and length where the samples see them, else by name, else by finer class."""
    found: Groups = []
    rest = list(members)
    for fields, least in OWN_FILLS.items():
        alike: dict[tuple[object, ...], list[int]] = {}
        for n in rest:
            alike.setdefault(columns[n][:fields], []).append(n)
        seen = [own for own in alike.values() if whole.periods[own].sum() >= OWN_PERIODS and whole.filled(own) >= least]
        found += seen
        rest = [n for n in rest if not any(n in own for own in seen)]
    return [*found, rest] if rest else found


def _means(
    whole: Normal, normal: Normal, solved: Floats, clocks: Floats, groups: Groups, parts: list[Groups]
) -> MetricMeans:
    """Sum the means of columns to those of groups of classes by time, with their errors.

    `normal`, `solved` and `clocks`: the equations of all parts in order, their solution, and the clock while each runs.
    """
    weights, filled = np.zeros((len(groups), len(solved))), np.zeros(len(groups))
    at = 0
    for n, (members, own) in enumerate(zip(groups, parts, strict=True)):
        columns = slice(at, at + len(own))
        at = columns.stop
        weights[n, columns] = normal.periods[columns] / normal.periods[columns].sum()
        filled[n] = whole.filled(members)
    inverse = np.linalg.pinv(normal.ata)
    variance = normal.residual(solved) / max(normal.count - len(solved), 1)
    # The clock of a column that runs only while it reads 0 is not known.
    unknown = (weights[:, (normal.atc <= 0) | (clocks <= 0)] > 0).any(axis=1)
    weights = np.divide(weights, clocks, out=np.zeros_like(weights), where=clocks > 0)
    chance = np.sqrt(variance * np.einsum("ij,jk,ik->i", weights, inverse, weights))
    # An error of a column in samples that it shares, as it passes into each mean; all of one sign at worst.
    edges = EDGE_ERROR * np.abs(weights @ inverse @ (normal.ata - normal.crowd)) @ solved
    mean = np.where(unknown, np.nan, weights @ solved)
    error = np.sqrt(chance**2 + edges**2 + (ROUNDING_ERROR / filled) ** 2 + (RUN_ERROR * mean) ** 2)
    return MetricMeans(mean, chance, error, filled)


def _mean_of(sums: Sums, whole: Normal, members: Sequence[int], found: MetricMeans, n: int) -> ClassMean:
    """Return the mean and error of group `n` of classes if they are good enough, else the reason."""
    mean, error, periods = float(found.mean[n]), float(found.error[n]), float(whole.periods[members].sum())
    full = 100.0 if "%" in sums.metric else sums.top
    by_chance = max(RELATIVE_LIMIT * mean, CHANCE_LIMIT * sums.top, LEAST_LIMIT)
    limit = max(RELATIVE_LIMIT * mean, WHOLE_LIMIT * full, LEAST_LIMIT)
    note = None
    if not math.isfinite(mean) or not math.isfinite(error):
        note = NO_CLOCK
    elif periods < MIN_PERIODS or 2 * found.chance[n] > by_chance:
        note = FEW
    elif MODEL_ERROR * mean / found.filled[n] > by_chance or error > limit:
        note = SHORT
    return ClassMean(
        classes=tuple(sums.columns[m].owner for m in members),
        mean=mean if note is None else None,
        std_error=error if note is None else None,
        samples=int(sums.touched[list(members)].max()),
        periods=periods,
        held=float(whole.held[list(members)].sum() / periods),
        note=note,
    )


def _told_apart(whole: Normal, groups: Groups) -> Groups:
    """Return groups of columns with a bounded condition number: columns that always run together become one."""
    while len(groups) > 1:
        condition, (a, b) = whole.grouped(groups).weakest()
        if condition <= MAX_CONDITION:
            break
        groups = [*groups[:a], groups[a] + groups[b], *groups[a + 1 : b], *groups[b + 1 :]]
    return groups


def _left_out(normal: Normal, fold: Normal) -> float:
    """Return the squared residuals of a fold's samples under the fit of all others."""
    return fold.residual(normal.plus(fold, -1).solution())

"""A sampled metric by kernel class: which mix of classes explains the samples.

Kernels last 10 to 100 us and samples come every 100 us. A sample is the mean over the period that begins at its time,
so it is the mean of the classes that ran in that period, weighted by the share of it that each took. The classes' means
are what non-negative least squares makes of all samples. Averaging the samples inside kernels instead (`held`) mixes
into every class what ran beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import Sampled, covered
from nsys2prv.analysis.nnls import Floats, nnls
from nsys2prv.intervals.spans import Spans, Times, difference, time_in

IDLE = "idle"
FEW = "too few samples"
SHORT = "kernels too short for this sampling rate"
# A class that ran for less than this many sampling periods has no number.
MIN_PERIODS = 5.0
# Nor has one whose mean is known to less than this: twice its standard error must be within a tenth of it, or within a
# fiftieth of the metric's largest sample (10 %, or 2 points of 100).
RELATIVE_LIMIT, ABSOLUTE_LIMIT = 0.1, 0.02
# What a mean is off by, as a share of it, beyond chance: this over the part of a sample that its kernels fill on
# average, as measured on a program sampled at three rates (docs/analysis.md). What a kernel does at its edges is not
# what it does inside, and a small part of a sample is scaled up to a whole one.
MODEL_ERROR = 1 / 30
# Belsley, Kuh and Welsch (Regression Diagnostics, 1980): above 30, columns cannot be told apart.
MAX_CONDITION = 30.0
# A gap of this many periods is samples that are missing, not a long sample.
LONG_GAP = 1.5
FOLDS = 20
CHUNK = 1 << 19


class ClassMean(NamedTuple):
    """Mean of a metric while a class (or a group of classes that always run together) runs alone.

    `mean` and `std_error` are None where the samples do not tell it; then `note` says why. `samples` counts those that
    the class has part in, `periods` their shares; `held` is the average of the samples inside its kernels.
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

    `r2_left_out` is that of samples whose iterations the fit had not seen.
    """

    device: int | None
    metric: str
    samples: int
    period_ns: int
    r2: float
    r2_left_out: float
    classes: tuple[ClassMean, ...]


@dataclass
class Normal:
    """Normal equations of some samples; they add up."""

    ata: Floats
    atv: Floats
    # Sum of the shares of each column: its time in periods.
    periods: Floats
    vtv: float = 0.0
    total: float = 0.0
    count: int = 0

    @classmethod
    def empty(cls, width: int) -> Normal:
        """Of no samples."""
        return cls(np.zeros((width, width)), np.zeros(width), np.zeros(width))

    def add(self, shares: Floats, values: Floats) -> None:
        """Add samples: a row of shares and a value each."""
        self.ata += shares.T @ shares
        self.atv += shares.T @ values
        self.periods += shares.sum(axis=0)
        self.vtv += float(values @ values)
        self.total += float(values.sum())
        self.count += len(values)

    def plus(self, other: Normal, sign: int = 1) -> Normal:
        """Of both, or (-1) of these without the others."""
        return Normal(
            self.ata + sign * other.ata,
            self.atv + sign * other.atv,
            self.periods + sign * other.periods,
            self.vtv + sign * other.vtv,
            self.total + sign * other.total,
            self.count + sign * other.count,
        )

    def grouped(self, groups: Sequence[Sequence[int]]) -> Normal:
        """With the columns of each group added up."""
        to = np.zeros((len(self.atv), len(groups)))
        for n, members in enumerate(groups):
            to[list(members), n] = 1.0
        sums = to.T @ self.ata @ to, to.T @ self.atv, to.T @ self.periods
        return Normal(*sums, self.vtv, self.total, self.count)

    def residual(self, x: Floats) -> float:
        """Sum of squared residuals of a solution."""
        return max(self.vtv - 2 * float(x @ self.atv) + float(x @ self.ata @ x), 0.0)

    def spread(self) -> float:
        """Sum of squared deviations from the mean."""
        return max(self.vtv - self.total**2 / self.count, 0.0) if self.count else 0.0


def class_spans(work: pl.DataFrame, by: str, window: Spans) -> dict[str, Spans]:
    """When each class runs on one device, and when nothing does (IDLE). `by`: column of WORK that names the class."""
    spans = {str(c): covered(part, window) for (c,), part in work.group_by(by, maintain_order=True)}
    return {**dict(sorted(spans.items())), IDLE: difference(window, covered(work, window))}


class Sums(NamedTuple):
    """What a pass over the samples of one metric leaves: normal equations of each fold, and by class the number of
    samples that it has part in. `top` is the largest sample."""

    device: int | None
    metric: str
    names: tuple[str, ...]
    folds: tuple[Normal, ...]
    touched: Times
    period_ns: int
    top: float


def sum_up(sampled: Sampled, spans: Mapping[str, Spans], window: Spans, borders: Times) -> Sums:
    """One pass over the samples of a metric inside the window, a chunk at a time.

    `spans` is from `class_spans`; `borders` are times between which samples are left out together (iterations) to check
    the fit.
    """
    folds = [Normal.empty(len(spans)) for _ in range(len(borders) + 1)]
    touched = np.zeros(len(spans), dtype=np.int64)
    period, top = 0, 0.0
    for start, end, values in _intervals(sampled):
        period = period or int(np.median(end - start))
        within = time_in(window, end) - time_in(window, start) == end - start
        start, end, values = start[within], end[within], values[within]
        if not len(start):
            continue
        top = max(top, float(values.max()))
        inside = [time_in(s, end) - time_in(s, start) for s in spans.values()]
        shares = np.stack(inside, axis=1) / (end - start)[:, None]
        touched += (shares > 0).sum(axis=0)
        cuts = [0, *np.searchsorted(start, borders, side="left"), len(start)]
        for n, fold in enumerate(folds):
            if cuts[n + 1] > cuts[n]:
                fold.add(shares[cuts[n] : cuts[n + 1]], values[cuts[n] : cuts[n + 1]])
    return Sums(sampled.device, sampled.metric, tuple(spans), tuple(folds), touched, period, top)


def pooled(sums: Sequence[Sums]) -> Sums:
    """The sums of several GPUs for one metric as those of one: what is rare on each may be enough on all."""
    names = tuple(sorted({name for one in sums for name in one.names}))
    touched = np.zeros(len(names), dtype=np.int64)
    folds: list[Normal] = []
    for one in sums:
        to = np.zeros((len(one.names), len(names)))
        at = [names.index(name) for name in one.names]
        to[np.arange(len(at)), at] = 1.0
        touched[at] += one.touched
        folds += [Normal(to.T @ f.ata @ to, to.T @ f.atv, to.T @ f.periods, f.vtv, f.total, f.count) for f in one.folds]
    top = max(one.top for one in sums)
    return Sums(None, sums[0].metric, names, tuple(folds), touched, sums[0].period_ns, top)


def fold_borders(low: int, high: int, iterations: Times) -> Times:
    """Where to part samples for the check: at iterations' begins where there are some, else in equal parts."""
    if len(iterations) < 2:
        return np.linspace(low, high, FOLDS // 2 + 1)[1:-1].astype(np.int64)
    inner = np.unique(iterations)
    return inner[:: -(-len(inner) // FOLDS)]


def _intervals(sampled: Sampled) -> Iterator[tuple[Times, Times, Floats]]:
    """Start and end of what each sample is the mean of, and its value, a chunk at a time."""
    held_time, held_value = np.zeros(0, np.int64), np.zeros(0, np.int64)
    period = 0
    for piece_times, piece_values in sampled.pieces():
        for low in range(0, len(piece_times), CHUNK):
            times = np.concatenate([held_time, piece_times[low : low + CHUNK]])
            values = np.concatenate([held_value, piece_values[low : low + CHUNK]])
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
    """Means of a metric by class; None without samples."""
    names, folds, touched = sums.names, sums.folds, sums.touched
    whole = Normal.empty(len(names))
    for fold in folds:
        whole = whole.plus(fold)
    if not whole.count:
        return None
    # Classes without a number explain samples too: each has a column of its own.
    groups = _told_apart(whole, [[n] for n in range(len(names)) if touched[n]])
    normal = whole.grouped(groups)
    x = nnls(normal.ata, normal.atv)
    errors = _standard_errors(normal, x)
    left_out = sum(_left_out(normal, fold.grouped(groups)) for fold in folds if fold.count)
    spread = normal.spread()
    means = [
        _mean_of(
            tuple(names[m] for m in members),
            (float(x[n]), float(errors[n])),
            int(touched[members].max()),
            float(normal.periods[n]),
            float(normal.ata[n, n] / normal.periods[n]),
            float(normal.atv[n] / normal.periods[n]),
            sums.top,
        )
        for n, members in enumerate(groups)
    ]
    return MetricFit(
        device=sums.device,
        metric=sums.metric,
        samples=whole.count,
        period_ns=sums.period_ns,
        r2=1 - normal.residual(x) / spread if spread else 1.0,
        r2_left_out=1 - left_out / spread if spread else 1.0,
        classes=tuple(sorted(means, key=lambda m: (m.mean is None, -m.periods))),
    )


def _mean_of(
    classes: tuple[str, ...],
    found: tuple[float, float],
    samples: int,
    periods: float,
    share: float,
    held: float,
    top: float,
) -> ClassMean:
    """A class' mean and standard error (`found`), if they are good enough. `share`: the part of a sample that it fills,
    averaged over its time; `top`: the metric's largest sample."""
    mean, error = found
    limit = max(RELATIVE_LIMIT * mean, ABSOLUTE_LIMIT * top)
    note = None
    if periods < MIN_PERIODS or 2 * error > limit:
        note = FEW
    elif MODEL_ERROR * mean / share > limit:
        note = SHORT
    told = note is None
    return ClassMean(classes, mean if told else None, error if told else None, samples, periods, held, note)


def _told_apart(whole: Normal, groups: list[list[int]]) -> list[list[int]]:
    """Groups of columns whose condition number is bounded: those that always run together become one."""
    while len(groups) > 1:
        ata = whole.grouped(groups).ata
        scale = 1 / np.sqrt(np.diag(ata))
        values, vectors = np.linalg.eigh(ata * scale[:, None] * scale[None, :])
        if values[-1] <= MAX_CONDITION**2 * max(values[0], 0.0):
            break
        a, b = sorted(np.argsort(-np.abs(vectors[:, 0]))[:2].tolist())
        groups = [*groups[:a], groups[a] + groups[b], *groups[a + 1 : b], *groups[b + 1 :]]
    return groups


def _standard_errors(normal: Normal, x: Floats) -> Floats:
    """Standard errors of ordinary least squares: residual variance times the diagonal of inv(A'A)."""
    free = max(normal.count - len(x), 1)
    variance = normal.residual(x) / free
    errors: Floats = np.sqrt(variance * np.diag(np.linalg.pinv(normal.ata)))
    return errors


def _left_out(normal: Normal, fold: Normal) -> float:
    """Squared residuals of a fold's samples under the fit of all others."""
    others = normal.plus(fold, -1)
    return fold.residual(nnls(others.ata, others.atv))

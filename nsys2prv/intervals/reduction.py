"""Reductions on request: drop short intervals, average metrics over periods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.intervals.reduction_options import Reduction
from nsys2prv.intervals.sampling import is_stop
from nsys2prv.model.event_types import METRICS_SAMPLED
from nsys2prv.model.frames import Drawn, Intervals, Samples
from nsys2prv.model.losses import Loss, Tally

# The largest real number that an event can have as its value.
LARGEST_MEAN = 2.0**63 - 1024
# No period is longer than reports can be, in ns: times that lie a few of them apart are still numbers.
LONGEST_PERIOD = 1 << 61
_ENDLESS = np.iinfo(np.int64).max


def reduced(frame: Drawn, reduction: Reduction, tally: Tally) -> Drawn:
    """Drop intervals that were too short before they were cut, and count them: the rest of a long one stays."""
    least = reduction.min_duration
    if not least or not isinstance(frame, Intervals):
        return frame
    length = pl.col("length") if "length" in frame.data.columns else pl.col("end") - pl.col("start")
    kept = frame.data.filter(length >= least)
    tally.count(Loss.SHORT, frame.data.height - kept.height, least)
    return Intervals(kept, frame.attributes)


@dataclass
class Averages:
    """Samples of one place as means over periods (ns) from the first sample on, weighted by time and rounded.

    A sample holds until the next one, and so it counts in every period that it reaches into. The last sample stays as
    it is. Of periods that lie within one sample only the first is written. Time in which the sampler paused does not
    count, and a period that lies within a pause has no mean.
    """

    period: int
    # Time of the first sample, number of samples taken in, number of means given out.
    origin: int = 0
    taken: int = 0
    given: int = 0
    # Samples that count in periods to come, and the first such period.
    waiting: pl.DataFrame | None = None
    following: int = 0

    def __post_init__(self) -> None:
        self.period = min(self.period, LONGEST_PERIOD)

    def add(self, frame: Samples) -> Samples:
        """Return the means over the periods that these samples complete. They are later than all samples before."""
        if frame.data.is_empty():
            return frame
        if self.waiting is None:
            self.origin = int(frame.data["time"][0])
        self.taken += frame.data.height - int(is_stop(frame.data).sum())
        data = frame.data if self.waiting is None else pl.concat([self.waiting, frame.data], how="diagonal")
        number = (data["time"].to_numpy() - self.origin) // self.period
        open_one = int(number[-1])
        made = self._means(data, open_one)
        # Whether the open period is written depends on when the last sample before it came.
        kept = int(np.searchsorted(number, open_one))
        held = data.head(kept).select(pl.all().forward_fill().last()) if kept else data.head(0)
        self.waiting, self.following = pl.concat([held, data.slice(kept)]), open_one
        return made

    def rest(self, tally: Tally) -> Samples | None:
        """Return the remaining samples at the end, and count the samples that were averaged."""
        if self.waiting is None:
            return None
        data, self.waiting = self.waiting, None
        made = Samples.of(data) if self.taken == 1 else self._means(data, None)
        self.given += self.taken == 1
        tally.count(Loss.AVERAGED, max(self.taken - self.given, 0), self.period)
        return made

    def _means(self, data: pl.DataFrame, until: int | None) -> Samples:
        """Return means over the periods from `following` up to `until`; None: to the last sample, which stays."""
        samples, time = Samples.of(data), data["time"].to_numpy()
        number = np.unique((time[:-1] - self.origin) // self.period)
        number = np.unique(np.concatenate([number, number + 1]))
        number = number[(number >= self.following) & (number < (_ENDLESS if until is None else until))]
        starts = self.origin + self.period * number
        starts = starts[starts < time[-1]]
        ends = starts + np.minimum(self.period, time[-1] - starts)
        # 1 in each period with samples, null in one that lies within a pause.
        pauses, ones = is_stop(data), pl.repeat(1, data.height, dtype=pl.Int64, eager=True)
        sampled = _means(time, ones, pauses, starts, ends)
        means = ((c, _means(time, data[c], pauses, starts, ends)) for c in samples.columns)
        columns = [mean.fill_null(0) if c == METRICS_SAMPLED.key else mean for c, mean in means]
        columns = [mean.alias(c) for mean, c in zip(columns, samples.columns, strict=True)]
        self.given += sampled.count()
        if until is None:
            last = data.select(pl.col(samples.columns).forward_fill().last())
            columns = [c.append(last[c.name]) for c in columns]
            starts = np.append(starts, time[-1])
            self.given += not pauses[-1]
        place = pl.repeat(data["place"][0], len(starts), dtype=pl.UInt32, eager=True).alias("place")
        return Samples(pl.DataFrame([pl.Series("time", starts), place, *columns]), samples.columns)


def _means(
    time: npt.NDArray[np.int64],
    values: pl.Series,
    pauses: npt.NDArray[np.bool_],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
) -> pl.Series:
    """Return mean of a held value over each span, without pauses; null where it is not known at any time of it."""
    if not len(starts):
        return pl.Series(dtype=pl.Int64)
    held = values.forward_fill().to_numpy()
    points = np.unique(np.concatenate([time, starts, ends]))
    length = np.diff(points)
    at = np.searchsorted(time, points[:-1], side="right") - 1
    value = np.where(pauses[at], np.nan, held[at].astype(np.float64))
    span = np.searchsorted(starts, points[:-1], side="right") - 1
    known = (span >= 0) & (points[:-1] < ends[span]) & ~np.isnan(value)
    weight = np.bincount(span[known], length[known], len(starts))
    total = np.bincount(span[known], value[known] * length[known], len(starts))
    with np.errstate(invalid="ignore"):
        means = np.clip(np.rint(total / weight), -LARGEST_MEAN, LARGEST_MEAN)
    return pl.Series(means).fill_nan(None).cast(pl.Int64)

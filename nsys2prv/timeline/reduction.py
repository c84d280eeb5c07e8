"""Less of a run on request: without what is short, metrics by period, streams of a device together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.timeline.frames import Drawn, Intervals, Samples, Tally

# The largest real number that is a value of an event, too.
LARGEST_REAL = 2.0**63 - 1024


@dataclass(frozen=True, slots=True)
class Reduction:
    """What the user can do without.

    `min_duration`: intervals that last less (ns) are left out; `metrics_every`: GPU metrics are averaged over periods
    of so many ns, 0: not; `merge_streams`: all streams of a process on one device share rows.
    """

    min_duration: int = 0
    metrics_every: int = 0
    merge_streams: bool = False


ALL = Reduction()


def reduced(frame: Drawn, less: Reduction, metrics: bool, tally: Tally) -> Drawn:
    """A frame without what the reduction leaves out, which is counted. `metrics`: its samples are GPU metrics."""
    if less.min_duration and isinstance(frame, Intervals):
        return _long_enough(frame, less.min_duration, tally)
    if less.metrics_every and metrics and isinstance(frame, Samples):
        return averaged(frame, less.metrics_every, tally)
    return frame


def _long_enough(frame: Intervals, least: int, tally: Tally) -> Intervals:
    """By what they lasted before they were cut: what a border leaves of a long one stays."""
    length = pl.col("length") if "length" in frame.data.columns else pl.col("end") - pl.col("start")
    kept = frame.data.filter(length >= least)
    tally.drop(f"shorter than {least} ns", frame.data.height - kept.height)
    return Intervals(kept, frame.attributes)


def averaged(frame: Samples, period: int, tally: Tally) -> Samples:
    """Samples of one place as means over periods (ns) from the first sample on, weighted by time and rounded.

    A sample holds until the next one, and so it counts in every period that it reaches into. The last sample stays as
    it is: nothing says how long it holds. Of periods that lie within one sample only the first is written.
    """
    time = frame.data["time"].to_numpy()
    if len(time) < 2:
        return frame
    # No longer than what is there: the sum of two large times may be none.
    length = min(period, max(int(time[-1] - time[0]), 1))
    number = np.unique((time[:-1] - time[0]) // length)
    starts = time[0] + length * np.unique(np.concatenate([number, number + 1]))
    starts = starts[starts < time[-1]]
    ends = np.minimum(starts + length, time[-1])
    last = frame.data.select(pl.col(frame.columns).forward_fill().last())
    columns = [_means(time, frame.data[c], starts, ends).append(last[c]).alias(c) for c in frame.columns]
    place = pl.repeat(frame.data["place"][0], len(starts) + 1, dtype=pl.UInt32, eager=True).alias("place")
    fewer = pl.DataFrame([pl.Series("time", np.append(starts, time[-1])), place, *columns])
    tally.drop(f"averaged over periods of {period} ns", max(frame.data.height - fewer.height, 0))
    return Samples(fewer, frame.columns)


def _means(
    time: npt.NDArray[np.int64], values: pl.Series, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> pl.Series:
    """Mean of a held value over each span; null where it is not known at any time of it."""
    held = values.forward_fill().to_numpy()
    points = np.unique(np.concatenate([time, starts, ends]))
    length = np.diff(points)
    value = held[np.searchsorted(time, points[:-1], side="right") - 1].astype(np.float64)
    span = np.searchsorted(starts, points[:-1], side="right") - 1
    known = (points[:-1] < ends[span]) & ~np.isnan(value)
    weight = np.bincount(span[known], length[known], len(starts))
    total = np.bincount(span[known], value[known] * length[known], len(starts))
    with np.errstate(invalid="ignore"):
        means = np.clip(np.rint(total / weight), -LARGEST_REAL, LARGEST_REAL)
    return pl.Series(means).fill_nan(None).cast(pl.Int64)

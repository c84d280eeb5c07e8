"""The average iteration of two runs: where a few iterations take long, the medians say nothing of what they cost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

# An iteration is long from so many times the median of its run on. Fewer long ones in both runs may be chance.
LONG_RATIO, FEWEST_LONG = 1.5, 3
# The average decides if its change and that of the median differ by this part of the earlier run's time.
LEAST_APART = 0.05
_KEY = ["repeat", "iteration"]


class Average(NamedTuple):
    """The mean time (ns) of an iteration in both runs. `long`, `iterations`: how many are long, of how many.

    `decides`: it tells more than the median, which a few long iterations do not move.
    """

    a: float
    b: float
    long: tuple[int, int]
    iterations: tuple[int, int]
    decides: bool

    @property
    def share(self) -> float:
        """Return the difference as a fraction of a."""
        return (self.b - self.a) / self.a if self.a else 0.0

    @property
    def text(self) -> str:
        """Return both times, the difference, and how many iterations are long in each run."""
        counts = [
            f"{long or 'none'} of {every} in {run}"
            for run, long, every in zip("AB", self.long, self.iterations, strict=True)
        ]
        times = f"{self.b / 1e6:.3f} ms on average instead of {self.a / 1e6:.3f} ({100 * self.share:+.1f} %)"
        return f"an iteration takes {times}; long ones are {' and '.join(counts)}"


def average(a: pl.DataFrame, b: pl.DataFrame, enough: bool = True) -> Average:
    """Return the average iteration of two runs, of their steady iterations (ITERATION), one or more.

    Not `enough`: there are too few for a test, and the average decides nothing.
    """
    both = [(_to_next(run), _computing(run)) for run in (a, b)]
    # A host that runs ahead begins the last iteration long before the device does.
    medians, means = ([max(float(of(one)) for one in times) for times in both] for of in (np.median, np.mean))
    long = [int((host >= LONG_RATIO * usual).sum()) for (host, _), usual in zip(both, medians, strict=True)]
    changes = [(new - old) / old if old else 0.0 for old, new in (medians, means)]
    decides = enough and max(long) >= FEWEST_LONG and abs(changes[1] - changes[0]) >= LEAST_APART
    return Average(means[0], means[1], (long[0], long[1]), (len(both[0][0]), len(both[1][0])), decides)


def _computing(iterations: pl.DataFrame) -> Floats:
    """Return how long (ns) each iteration computes, of the rank that does so longest: it takes as long at least.

    Its time on the device may reach into the next one, by copies and communication.
    """
    each = iterations.group_by(_KEY).agg(pl.col("compute_ns").max()).sort(_KEY)
    return each["compute_ns"].to_numpy().astype(np.float64)


def _to_next(iterations: pl.DataFrame) -> Floats:
    """Return the time (ns) of each iteration on the host: to the begin of the next one, else to its end.

    Lengths would count the time of a long iteration twice: the device is in one while the host is in the next.
    """
    end = pl.col("start_ns") + pl.col("total_ns")
    each = iterations.group_by(_KEY).agg(pl.col("start_ns").min(), end=end.max()).sort(_KEY)
    goes_on = (pl.col("repeat").shift(-1) == pl.col("repeat")) & (
        pl.col("iteration").shift(-1) - pl.col("iteration") == 1
    )
    until = pl.when(goes_on).then(pl.col("start_ns").shift(-1)).otherwise("end")
    return each.select(until - pl.col("start_ns")).to_series().to_numpy().astype(np.float64)

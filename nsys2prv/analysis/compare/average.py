"""The average iteration of two runs: where a few iterations take long, the medians say nothing of what they cost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsys2prv.model.units import change_text

Floats = npt.NDArray[np.float64]

# An iteration is long from so many times the median of its run on. Fewer long ones in both runs may be chance.
LONG_RATIO, FEWEST_LONG = 1.5, 3
# The average decides if it became so many times as long relative to the median, or the other way round.
LEAST_APART = 1.05


class Average(NamedTuple):
    """The mean time (ns) of an iteration in both runs. `long`, `iterations`: how many are long, of how many.

    `apart`: its change differs from that of the median; `decides`: it tells more than the median, which a few long
    iterations do not move.
    """

    a: float
    b: float
    long: tuple[int, int]
    iterations: tuple[int, int]
    apart: bool
    decides: bool

    @property
    def share(self) -> float:
        """Return the difference as a fraction of a."""
        return (self.b - self.a) / self.a if self.a else 0.0

    @property
    def text(self) -> str:
        """Return both times, the difference, and how many iterations are long in each run."""
        times = f"{self.b / 1e6:.3f} ms on average instead of {self.a / 1e6:.3f} ({change_text(self.share)})"
        # The run that has long ones comes first.
        runs = sorted(zip("AB", self.long, self.iterations, strict=True), key=lambda run: run[1] == 0)
        (first, long, every), (other, *counts) = runs
        those = f"{long or 'none'} of {every} iterations of {first} are long"
        return f"an iteration takes {times}; {those}, {counts[0] or 'none'} of {counts[1]} of {other}"


def average(a: Floats, b: Floats, enough: bool = True) -> Average:
    """Return the average iteration of two runs. `a`, `b`: see iteration_lengths, one iteration or more.

    Not `enough`: there are too few for a test, and the average decides nothing.
    """
    medians, means = ([float(of(run)) for run in (a, b)] for of in (np.median, np.mean))
    long = [int((run >= LONG_RATIO * usual).sum()) for run, usual in zip((a, b), medians, strict=True)]
    (old_median, new_median), (old_mean, new_mean) = medians, means
    # Both are compared by products: the same two runs differ as much in the other order, and a median may be 0.
    changes = sorted((new_mean * old_median, old_mean * new_median))
    apart = changes[1] >= LEAST_APART * changes[0] and changes[1] > 0
    decides = enough and max(long) >= FEWEST_LONG and apart
    return Average(means[0], means[1], (long[0], long[1]), (len(a), len(b)), apart, decides)

"""The period of a sampler, and its pauses."""

from __future__ import annotations

import numpy as np

from nsys2prv.intervals.spans import Indices, Times

# The period is the median of the first this many distances between samples: all of them need not be in memory.
FIRST_DISTANCES = 16
# A distance of more than this many periods means missing samples, not a long sample.
LONG_GAP = 1.5


def period_of(times: Times) -> int:
    """Return the period (ns) of samples at sorted times (ns), by the first of them; 0 with fewer than two."""
    return int(np.median(np.diff(times[: FIRST_DISTANCES + 1]))) if len(times) > 1 else 0


def pauses(times: Times, period: int) -> Indices:
    """Return the indices of samples after which the sampler paused: the next one comes too late."""
    return np.flatnonzero(np.diff(times) > LONG_GAP * period)

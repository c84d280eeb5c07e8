"""The period of a sampler, and its pauses, which frames of samples mark by 0 in the column METRICS_SAMPLED."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.intervals.spans import Indices, Mask, Times
from nsys2prv.model.event_types import METRICS_SAMPLED

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


def is_stop(rows: pl.DataFrame) -> Mask:
    """Return True for the rows of a frame of samples from which on nothing is sampled, until the next one."""
    if METRICS_SAMPLED.key not in rows.columns:
        return np.zeros(rows.height, dtype=np.bool_)
    return rows[METRICS_SAMPLED.key].eq_missing(0).to_numpy()


def without_stops(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a frame of samples that are samples."""
    return rows.filter(pl.Series(~is_stop(rows))) if METRICS_SAMPLED.key in rows.columns else rows

"""The shortest interval: one that was recorded without a length, or that ends before it begins, lasts 1 ns."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.intervals.spans import Times


def end_of(end: str | pl.Expr = "end", start: str | pl.Expr = "start") -> pl.Expr:
    """Return the end (ns) at which an interval is drawn, given the recorded one."""
    recorded, begin = (pl.col(time) if isinstance(time, str) else time for time in (end, start))
    return pl.max_horizontal(recorded, begin + 1)


def ends_of(start: Times, end: Times) -> Times:
    """Return the ends (ns) at which intervals are drawn, given the recorded ones."""
    return np.maximum(end, start + 1)

"""Times that few iterations hold nearly all of, of which a mean over all iterations says little."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.thresholds import FEWEST_PLACES, LIKE_MOST, NEARLY_ALL, RECURS


def starved_in_few(case: Case, part: str) -> str:
    """Return the words of `in_few` for a part of STARVED, of all devices; of `launching` in usual iterations."""
    starved = case.usual_starved() if part == "launching" else case.starved
    return in_few(starved.group_by("repeat", "number").agg(pl.col(part).sum())[part])


def waiting_in_few(case: Case, ranks: Sequence[int], delay_ns: float) -> str:
    """Return the words of `in_few` for the time in which ranks wait for a late one, and compute nothing.

    What they wait beyond the median of iterations counts, if that is nearly all of the delay, `delay_ns` (of an
    iteration): they are in communication in each.
    """
    own = case.analysis.iterations.filter("steady", pl.col("rank").is_in(ranks))
    waits = case.held(own).group_by("repeat", "iteration").agg(ns=pl.sum_horizontal("exposed_ns", "mpi_ns").mean())
    longer = waits.select((pl.col("ns") - pl.col("ns").median()).clip(lower_bound=0))["ns"]
    return in_few(longer) if longer.sum() >= NEARLY_ALL.value * delay_ns * case.step_count else ""


def in_few(times: pl.Series) -> str:
    """Return ` (nearly all in 3 of 20 iterations)` if less than half of iterations hold nearly all of it, else "".

    `times`: ns of each iteration. The number is that of the fewest iterations that hold NEARLY_ALL, or, if that is
    more, of all iterations as long as these: half of their mean or more.
    """
    if len(times) < FEWEST_PLACES.value or not times.sum():
        return ""
    longest = np.sort(times.to_numpy())[::-1]
    fewest = int((longest.cumsum() < NEARLY_ALL.value * longest.sum()).sum()) + 1
    like = int((longest >= LIKE_MOST.value * longest[:fewest].mean()).sum())
    held_by = max(fewest, like)
    return f" (nearly all in {held_by} of {len(times)} iterations)" if held_by < RECURS.value * len(times) else ""

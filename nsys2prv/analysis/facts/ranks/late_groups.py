"""Ranks that have something in common and are late together: any of them comes last, and the others wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.compute_times import compute_of_ranks
from nsys2prv.analysis.facts.ranks.bubble import bubble
from nsys2prv.analysis.facts.ranks.latecomers import awaited_ranks, pairs_of_ranks
from nsys2prv.analysis.facts.thresholds import LATE, LEAST_WAIT, LONGER_COMPUTE, SINGLE, TOGETHER
from nsys2prv.analysis.interval_frames import at_longest


class LateGroup(NamedTuple):
    """Ranks that are late together, and those that wait for them.

    `net_ns`: exposed waiting of one of the others for them, less that of one of them for the others (the medians, ns of
    an iteration); `at`: begin of the longest wait.
    """

    members: tuple[int, ...]
    waiting: tuple[int, ...]
    net_ns: float
    at: int


@once
def find_group(case: Case) -> LateGroup | None:
    """Return the ranks that wait for little while the others wait for them, or None.

    They are at most half of all ranks. None are found where a single rank is more than half as late, where stages of a
    pipeline wait, or where the ranks compute longer.
    """
    pairs = pairs_of_ranks(case)
    members, others = _split(pairs, LATE.value * case.iteration_ns * case.step_count)
    if len(members) < 2 or bubble(case):
        return None
    net = (_usual_wait(pairs, others, members) - _usual_wait(pairs, members, others)) / case.step_count
    mean, by_rank = compute_of_ranks(case)
    usual, usual_of_others = (np.median([by_rank.get(rank, mean) for rank in side]) for side in (members, others))
    alone = max((one.net_ns for one in awaited_ranks(case)), default=0.0)
    least = max(LATE.value * case.iteration_ns, alone / SINGLE.value, (usual - usual_of_others) / LONGER_COMPUTE.value)
    if net < least:
        return None
    for_them = pairs.filter(pl.col("late").is_in(members), pl.col("waiting").is_in(others))
    at = for_them.select(at_longest("exposed_waiting_ns", "waits_at")).item()
    return LateGroup(tuple(members), tuple(others), net, at)


def _split(pairs: pl.DataFrame, least: float) -> tuple[list[int], list[int]]:
    """Return the ranks that wait for less than TOGETHER of what the others wait, and these; none without a group.

    `pairs`: see `pairs_of_ranks`. Ranks that neither wait for `least` ns nor are waited for as long are in none of
    them, as those of another communicator. Late ranks for which hardly anybody waits are among the others.
    """
    waits, awaited = (
        dict(pairs.group_by(side).agg(pl.col("exposed_waiting_ns").sum()).rows()) for side in ("waiting", "late")
    )
    taking_part = [rank for rank in {*waits, *awaited} if max(waits.get(rank, 0), awaited.get(rank, 0)) >= least]
    ordered = sorted(taking_part, key=lambda rank: (waits.get(rank, 0), rank))
    # In order, so that the middle one of the others is their median.
    times = [waits.get(rank, 0) for rank in ordered]
    sizes = range(len(ordered) // 2, 1, -1)
    size = next((n for n in sizes if times[n - 1] <= TOGETHER.value * times[(n + len(times)) // 2]), 0)
    longest = max((awaited.get(rank, 0) for rank in ordered[:size]), default=0)
    members = {rank for rank in ordered[:size] if awaited.get(rank, 0) >= LEAST_WAIT.value * longest}
    return sorted(members), sorted(set(ordered) - members)


def _usual_wait(pairs: pl.DataFrame, waiting: Sequence[int], late: Sequence[int]) -> float:
    """Return how long one of `waiting` waits for `late` (ns of the window, the median)."""
    chosen = pairs.filter(pl.col("waiting").is_in(waiting), pl.col("late").is_in(late))
    sums = dict(chosen.group_by("waiting").agg(pl.col("exposed_waiting_ns").sum()).rows())
    return float(np.median([sums.get(rank, 0) for rank in waiting]))

"""Ranks and GPUs for which others wait with nothing to compute: how long, and whether they compute longer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.compute_times import compute_of_ranks, shared_compute
from nsys2prv.analysis.facts.thresholds import GAINED, LATE, LEAST_WAIT, LONGER_COMPUTE
from nsys2prv.analysis.interval_frames import at_longest
from nsys2prv.model.units import text_ms


class Latecomer(NamedTuple):
    """A rank, or a device of a rank, that others wait for. Times are ns of an iteration.

    `wait_ns`: exposed waiting of one that waits for it (the median), `net_ns`: less its own for others; `excess_ns`:
    time that it computes longer than the mean of all, `longer_ns`: longer than those that wait (the median); `waiting`:
    those that wait; `at`: begin of the longest wait.
    """

    member: int
    wait_ns: float
    net_ns: float
    excess_ns: float
    longer_ns: float
    waiting: tuple[int, ...]
    at: int

    @property
    def by_compute(self) -> bool:
        """Return True if longer compute explains most of the waiting."""
        return self.longer_ns >= LONGER_COMPUTE.value * self.net_ns


def gains_less(cost: float, delay: float) -> str:
    """Return the end of a title that says what can be gained, if that is far less than the delay; else nothing (ns)."""
    if cost >= GAINED.value * delay:
        return ""
    return f"; removing this delay gains about {text_ms(cost)}, as other hosts are busy, too"


def latecomer_ranks(case: Case) -> list[Latecomer]:
    """Return the ranks that others wait for by more than jitter, the latest first."""
    return [one for one in awaited_ranks(case) if one.net_ns >= LATE.value * case.iteration_ns]


def latecomer_devices(case: Case) -> list[Latecomer]:
    """Return the devices that other devices of their rank wait for by more than jitter, the latest first."""
    return [one for one in awaited_devices(case) if one.net_ns >= LATE.value * case.iteration_ns]


@once
def awaited_ranks(case: Case) -> tuple[Latecomer, ...]:
    """Return the ranks that others wait for, the latest first."""
    compute = compute_of_ranks(case)
    return tuple(_awaited(pairs_of_ranks(case), compute.by_rank, compute.mean_ns, case.step_count))


def pairs_of_ranks(case: Case) -> pl.DataFrame:
    """Return waiting, late (ranks), exposed_waiting_ns and waits_at of the waits of ranks for others."""
    waits = case.exposed.filter(pl.col("waited_for").is_not_null() & (pl.col("waited_for") != pl.col("rank")))
    return waits.select("waits_at", "exposed_waiting_ns", waiting="rank", late="waited_for")


@once
def awaited_devices(case: Case) -> tuple[Latecomer, ...]:
    """Return the devices that other devices of their rank wait for, the latest first."""
    waits = case.analysis.explanation.exposed.filter(pl.col("late_device") != pl.col("device"))
    pairs = waits.select("rank", "waits_at", "exposed_waiting_ns", waiting="device", late="late_device")
    computes, found = shared_compute(case), []
    for (rank,), own in pairs.group_by("rank", maintain_order=True):
        times = computes.get(int(str(rank)), {})
        found += _awaited(own, times, sum(times.values()) / max(len(times), 1), case.step_count)
    return tuple(sorted(found, key=lambda one: (-one.net_ns, one.member)))


def _awaited(pairs: pl.DataFrame, computes: Mapping[int, float], mean: float, steps: int) -> list[Latecomer]:
    """Return those for which others wait, the latest first.

    `pairs`: waiting, late, exposed_waiting_ns and waits_at; `computes`: compute (ns of an iteration) by member, `mean`
    that of all.
    """
    own = dict(pairs.group_by("waiting").agg(pl.col("exposed_waiting_ns").sum()).rows())
    longest = at_longest("exposed_waiting_ns", "waits_at").alias("waits_at")
    summed = pairs.group_by("late", "waiting").agg(pl.col("exposed_waiting_ns").sum(), longest)
    # Leave out those that hardly wait: they would lower the median.
    most = pl.col("exposed_waiting_ns").max().over("late")
    by_late = (
        summed.filter(pl.col("exposed_waiting_ns") >= LEAST_WAIT.value * most)
        .group_by("late")
        .agg(pl.col("exposed_waiting_ns").median(), pl.col("waiting").sort(), longest)
    )
    found = []
    for member, wait, waiting, at in by_late.rows():
        usual = float(np.median([computes.get(one, mean) for one in waiting]))
        compute = computes.get(member, mean)
        net = (wait - own.get(member, 0)) / steps
        found.append(Latecomer(member, wait / steps, net, compute - mean, compute - usual, tuple(waiting), at))
    return sorted(found, key=lambda one: (-one.net_ns, one.member))

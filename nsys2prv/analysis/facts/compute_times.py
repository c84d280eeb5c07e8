"""Compute times of devices and of ranks: a rank computes as long as the one of its devices that computes longest."""

from __future__ import annotations

from typing import NamedTuple

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.predict.changed_lengths import LEAST_SHARE


class ComputeOfRanks(NamedTuple):
    """The time that devices compute (ns of an iteration): the mean of all, and by rank that of its longest one."""

    mean_ns: float
    by_rank: dict[int, float]


def shared_compute(case: Case) -> dict[int, dict[int, float]]:
    """Return by rank how long each of its devices computes (ns of an iteration), without those that have no share.

    A rank has no share of its work on a device where it computes less than LEAST_SHARE of the time on its busiest one.
    """
    by_rank: dict[int, dict[int, float]] = {}
    for number, (device, time) in enumerate(zip(case.run.devices, case.useful, strict=True)):
        by_rank.setdefault(device.rank, {})[number] = time
    return {
        rank: {number: time for number, time in own.items() if time >= LEAST_SHARE * max(own.values())}
        for rank, own in by_rank.items()
    }


def compute_of_ranks(case: Case) -> ComputeOfRanks:
    """Return how long the devices of each rank compute that has a share of its work there (see shared_compute)."""
    shared = shared_compute(case)
    times = [time for own in shared.values() for time in own.values()]
    return ComputeOfRanks(sum(times) / max(len(times), 1), {rank: max(own.values()) for rank, own in shared.items()})

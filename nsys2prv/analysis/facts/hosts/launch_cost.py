"""The cost of launches: time in which devices have nothing launched, or wait for ranks; the lengths of kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case, usual
from nsys2prv.analysis.facts.hosts.gain_of_hosts import limit_of_hosts
from nsys2prv.analysis.facts.thresholds import ALIKE_LENGTHS, MOSTLY_STARVED, NEARLY_ALL
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.interval_frames import at_longest
from nsys2prv.model.units import text_ms


class StarvedDevices(NamedTuple):
    """Devices (indices of Run.devices) without launched work, the most starved first, and what the first one lacks.

    `ns`: of an iteration; `at_ns`: when its longest such time begins, rather of iterations whose longest idle
    time that is.
    """

    devices: tuple[int, ...]
    ns: float
    at_ns: int | None


class LaunchCost(NamedTuple):
    """Cost of launches (ns of an iteration): `measured_ns` by idle devices, and `ns`, which a replay may limit."""

    ns: float
    measured_ns: float

    @property
    def of_replay(self) -> str:
        """Return the words for what a replay gains, where that limits the cost; else an empty text."""
        own = text_ms(self.ns)
        return f"; by a replay, faster hosts gain {own}" if own != text_ms(self.measured_ns) else ""


def launch_cost(case: Case, starved: Sequence[float]) -> LaunchCost:
    """Return what launches cost. `starved`: time of each device with nothing launched (ns of an iteration)."""
    measured = _measured_cost(case, starved)
    limit = limit_of_hosts(case, measured)
    return LaunchCost(measured if limit is None else limit, measured)


def _measured_cost(case: Case, starved: Sequence[float]) -> float:
    """Return what launches cost by the time of devices (ns of an iteration). `starved`: see launch_cost."""
    least, mean, gain = min(starved), sum(starved) / len(starved), case.gain("launch=0")
    # Devices that wait for other ranks wait for hosts, too. Subtract the longest wait of a host: that time is due to a
    # late rank, and not to launches.
    waiting = min(mean + waiting_of_devices(case, max(starved)), case.iteration_ns) - longest_host_wait(case)
    return max(least, min(gain, mean), waiting)


def waiting_of_devices(case: Case, starved: float) -> float:
    """Return how long a device waits for others while it computes nothing (ns of an iteration, the mean).

    It counts up to `starved`, the longest time in which a device has nothing launched: hosts delay others no longer.
    """
    devices = max(case.run.work["device"].n_unique(), 1)
    # All devices of a rank wait while it is in MPI.
    of_rank = Counter(device.rank for device in case.run.devices)
    sharing = pl.col("rank").replace_strict(of_rank, default=1, return_dtype=pl.Int64)
    each = pl.when(pl.col("kind") == NCCL).then(1).otherwise(sharing)
    exposed = case.analysis.explanation.exposed.select((pl.col("exposed_waiting_ns") * each).sum()).item()
    return min(float(exposed) / case.step_count / devices, starved)


def starved_devices(case: Case) -> StarvedDevices:
    """Return the devices that hosts of the usual iterations leave without launched work, the most starved first.

    Of several devices these are the ones with MOSTLY_STARVED of the longest such time or more.
    """
    usually = case.usual_starved()
    by_device = usually.group_by("device", maintain_order=True).agg(ns=usual(pl.col("launching")).fill_null(0))
    ordered = by_device.sort("ns", descending=True, maintain_order=True)
    most = float(ordered["ns"][0] or 0)
    own = usually.filter(pl.col("device") == ordered["device"][0])
    # `at` is of the longest idle time, of any cause: rather take one that is a pause alone.
    alone = pl.col("pause") == pl.col("longest")
    return StarvedDevices(
        tuple(ordered.filter(pl.col("ns") >= MOSTLY_STARVED.value * most)["device"]),
        most,
        own.select(at_longest(pl.col("pause") + alone * pl.col("pause").max(), "at")).item(),
    )


def longest_host_wait(case: Case) -> float:
    """Return how long the host waits (ns of an iteration) that waits longest of those that use a device."""
    using = {case.run.rank(task) for task in case.run.work["task"].unique()}
    return max((ns for rank, ns in case.host_waits.items() if rank in using), default=0.0)


def lengths_of_kernels(case: Case, median: float) -> str:
    """Return words on the lengths of the kernels of the window, to follow their number. `median`: of these (ns).

    It says little where they are unlike each other. Then it is how many are shorter than the median time between two
    launches of a thread: a host that only launches is no faster. A CUDA graph launches many at once.
    """
    lengths = case.kernels["ns"]
    if (lengths.quantile(NEARLY_ALL.value, "nearest") or 0) <= ALIKE_LENGTHS.value * median:
        return f" of {median / 1000:.1f} us"
    launches = case.kernels.select("caller_row", "launched").drop_nulls().unique().sort("caller_row", "launched")
    apart = launches.select(pl.col("launched").diff().over("caller_row")).to_series().drop_nulls()
    if launches.height < NEARLY_ALL.value * lengths.len() or apart.is_empty():
        return f", half of them shorter than {median / 1000:.1f} us,"
    every = float(apart.median() or 0)  # type: ignore[arg-type]
    share = float((lengths < every).mean() or 0)  # type: ignore[arg-type]
    part = "nearly all" if share >= NEARLY_ALL.value else f"{100 * share:.0f} %"
    return f", {part} of them shorter than the {every / 1000:.1f} us from launch to launch,"

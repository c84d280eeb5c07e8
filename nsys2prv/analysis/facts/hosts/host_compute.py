"""Work of devices that hosts do: they copy data from a device, compute with it, and copy results back."""

from __future__ import annotations

from statistics import median

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.gaps import kept_time
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen
from nsys2prv.analysis.facts.starved import parts_of_gaps
from nsys2prv.analysis.facts.thresholds import COMPUTING, GAINED, NEARLY_ALL, ONE_PLACE, VALUE_BYTES
from nsys2prv.analysis.frames import TO_DEVICE, TO_HOST
from nsys2prv.intervals.spans import Indices

ON_DEVICE = Words(
    general="on the device (arrays of the framework rather than of NumPy, CuPy in place of NumPy)",
    pytorch="on the device (operations of torch rather than NumPy, an optimizer on the GPU)",
    jax="on the device (jax.numpy rather than NumPy, in the same jax.jit)",
    cupy="on the device (CuPy rather than NumPy, a kernel of your own)",
    cuda="on the device (a kernel of your own, cuBLAS, Thrust)",
)
AHEAD = "ahead of time in another thread or process"
IN_PARTS = "where memory forbids that, copy and compute in parts while the device works"


@once
def trips_over_hosts(case: Case) -> pl.DataFrame:
    """Return device, rank, repeat, number and `ns`: idle time from a copy of data to the host to the next copy back.

    Of STARVED its parts `synchronized` and `launching` count: loading, allocations and calls of the system are no
    compute. Copies of single values do not count: programs read a loss, and then copy the next batch. Without
    iterations there are no rows: a program may read its results once, and go on.
    """
    gaps, begins = case.idle_gaps(kept_time(case.analysis)), case.begins
    parts = parts_of_gaps(case.blocked, case.launchers, gaps)
    ranks = pl.DataFrame({"rank": [one.rank for one in case.run.devices]}, schema={"rank": pl.Int64()})
    timed = parts.select("device", ns=pl.col("synchronized") + pl.col("launching"))
    timed = timed.hstack(ranks[timed["device"]])
    at = np.searchsorted(begins["begin"].to_numpy(), parts["start"].to_numpy(), side="right") - 1
    own = _between_copies(case.run.work, gaps.found["before"].to_numpy()) & (at >= 0)
    if not own.any():
        return timed.clear().with_columns(repeat=pl.lit(0), number=pl.lit(0))
    trips = timed.filter(own).hstack(begins.select("repeat", "number", "steady")[at[own]]).filter("steady")
    return trips.group_by("device", "rank", "repeat", "number").agg(pl.col("ns").sum()).filter(pl.col("ns") > 0)


def _between_copies(work: pl.DataFrame, nexts: Indices) -> NDArray[np.bool_]:
    """Return for each idle time if it is between a copy of data to the host and a copy back.

    `nexts`: see Gaps.before. Copies to the host in a row count together.
    """
    ordered = work.select("device", "name", "bytes").sort("device", maintain_order=True)
    ordered = ordered.with_columns(back=pl.col("name") == TO_DEVICE, out=pl.col("name") == TO_HOST)
    row = pl.struct("device", "out").rle_id()
    ordered = ordered.with_columns(data=pl.col("out") & (pl.col("bytes").sum().over(row) > VALUE_BYTES.value))
    same = ordered["device"] == ordered["device"].shift(1)
    between = ordered["back"] & ordered["data"].shift(1) & same
    # The last idle time of all has no activity behind it.
    return np.append(between.fill_null(False).to_numpy(), False)[nexts]


def computes_between_copies(case: Case) -> bool:
    """Return True if hosts work between a copy to the host and one back in nearly all iterations.

    They do so for most of the time that devices have nothing launched, or wait for hosts that had waited for them.
    """
    idle = case.idle("launching").mean_ns + case.idle("synchronized").mean_ns
    trips = case.of_device(int(trips_over_hosts(case)["ns"].sum()))
    return (
        _iterations(trips_over_hosts(case)) >= NEARLY_ALL.value * case.step_count
        and trips >= ONE_PLACE.value * idle > 0
    )


def _iterations(trips: pl.DataFrame) -> int:
    return trips.select("repeat", "number").n_unique()


def on_device_instead(case: Case, seen: Seen, between_copies: bool) -> str:
    """Return what to do about work of a host, to follow what it is: on the device, where it is for that, or elsewhere.

    `seen`: what samples say of it; `between_copies`: it lies between a copy to the host and one back. Without samples
    of compute this may be work on the results, or on the next input.
    """
    device = ON_DEVICE.of(case.framework)
    if seen.computing >= COMPUTING.value:
        return f"compute that {device}; {IN_PARTS}" if between_copies else f"compute that {device}, or {AHEAD}"
    if between_copies:
        return f"what it computes with the copied data, compute {device}; what it prepares for the next copy, {AHEAD}"
    return "move that work off the launching thread or out of the loop"


def advice_on_trips(case: Case, rank: int, delay_ns: float, seen: Seen) -> str:
    """Return advice on a rank that is late as its host works between a copy to it and one back; else an empty text.

    It does so in nearly all iterations, for half of the delay longer than others (the median). `delay_ns`: the delay
    (ns of an iteration); `seen`: what samples say of the host.
    """
    trips = trips_over_hosts(case).group_by("rank", "repeat", "number").agg(pl.col("ns").mean())
    own, count = trips.filter(rank=rank), len(case.run.ranks)
    others = [int(trips.filter(rank=other)["ns"].sum()) for other in case.run.ranks.values() if other != rank]
    more = (int(own["ns"].sum()) - median(others or [0])) / case.step_count
    if _iterations(own) < NEARLY_ALL.value * case.step_count or not more >= GAINED.value * delay_ns > 0:
        return ""
    if 2 * sum(ns > 0 for ns in others) >= count:
        return (
            f"The hosts of ranks work between copies from their devices and to them, that of rank {rank} longest: "
            f"{on_device_instead(case, seen, True)}. See, too, that ranks share no cores (OMP_NUM_THREADS, binding)."
        )
    known = f": {seen.text}" if seen.text else ""
    return (
        f"In {_iterations(own)} of {case.step_count} iterations the host of rank {rank} copies data from its device, "
        f"works, and copies data to it{known}; {on_device_instead(case, seen, True)}."
    )

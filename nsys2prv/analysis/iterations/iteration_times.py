"""Iterations: their time on each rank, its parts, and the rank that the others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import MPI, NCCL, Run
from nsys2prv.analysis.interval_frames import covered_by, covered_time
from nsys2prv.analysis.iterations.phases import PHASES, occurrences, projected, with_phase
from nsys2prv.analysis.iterations.window import iterations_frame
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import one_span, time_in
from nsys2prv.run.iterations.steady import STEADY, Window

# A rank is slow in an iteration if its own time is the longest there and this much above the median.
LEAST_SLOW_RATIO = 1.05

# `repeat` is the pass of the iteration's number, such as its epoch, from 0. Times in ns. `total` is the range's on the
# host; `own` is the rank's without waiting for others: of the device's time all but exposed communication where there
# is NCCL, else of the host's all but MPI; `to_first_collective` is from the first device activity to the first NCCL
# kernel (null: none). The rest is of what the iteration launched: `device_start` is when its first device activity
# begins (null: none), `device` from there to the end of the last one, and unions of intervals on each device, as means
# over the devices of the rank. `idle` is the part of `device` in which they run nothing, of no iteration.
ITERATION = {
    "rank": pl.Int64(),
    "iteration": pl.Int64(),
    "repeat": pl.Int64(),
    "steady": pl.Boolean(),
    "start_ns": pl.Int64(),
    "total_ns": pl.Int64(),
    "own_ns": pl.Int64(),
    "device_start_ns": pl.Int64(),
    "device_ns": pl.Int64(),
    "compute_ns": pl.Int64(),
    "communication_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    "mpi_ns": pl.Int64(),
    "to_first_collective_ns": pl.Int64(),
    **{f"{phase}_ns": pl.Int64() for phase in PHASES},
}

_KEY = ["task", "repeat", "number"]
# Times that are 0 of an iteration that launched nothing.
_DEVICE_TIMES = ["device_ns", "compute_ns", "communication_ns", "exposed_ns", "idle_ns"]


class Ranks(NamedTuple):
    """Ranks to look at, by mean own time over the iterations. `slow` counts the slow iterations of a rank."""

    fastest: int
    average: int
    slowest: int
    slow: dict[int, int]


def iterations(
    run: Run, main: pl.DataFrame, steps: pl.DataFrame, launched: pl.DataFrame, window: Window
) -> pl.DataFrame:
    """Return ITERATION for each rank and iteration.

    `main`: ranges of the main threads; `steps`: OCCURRENCE of the iterations; `launched`: the work of each (see
    `phases.projected`).
    """
    by_device = _times_by_device(launched)
    devices = by_device.group_by("task").agg(devices=pl.col("device").n_unique())
    idle = _idle_times(run.work, by_device, devices)
    table = _with_mpi(run, steps).join(_device_times(by_device, devices), on=_KEY, how="left")
    table = table.join(idle, on=_KEY, how="left")
    for times in _phase_times(launched, main, devices):
        table = table.join(times, on=_KEY, how="left")
    steady = iterations_frame(window.iterations).with_columns(steady=pl.lit(True))
    table = table.join(steady, on=["number", "repeat"], how="left")
    # One basis for the whole table: device time where any of it has collectives, else host time.
    on_device = bool((launched["kind"] == NCCL).any())
    named = table.with_columns(
        pl.col(_DEVICE_TIMES).fill_null(0),
        rank=run.rank_of("task"),
        iteration="number",
        steady=pl.col("steady").fill_null(window.name != STEADY),
        start_ns="start",
        total_ns=pl.col("end") - pl.col("start"),
    )
    own = pl.col("device_ns") - pl.col("exposed_ns") if on_device else pl.col("total_ns") - pl.col("mpi_ns")
    return named.with_columns(own_ns=own).select(*ITERATION).sort("repeat", "iteration", "rank")


def iteration_means(iterations: pl.DataFrame) -> pl.DataFrame:
    """Return rank, the number of its steady `iterations` and their mean times (ns), of those columns that have any.

    `iterations`: ITERATION.
    """
    names = [c for c in iterations.columns if c.endswith("_ns") and c not in ("start_ns", "device_start_ns")]
    means = iterations.filter("steady").group_by("rank").agg(pl.len().alias("iterations"), pl.col(names).mean())
    return means.sort("rank").select("rank", "iterations", *(n for n in names if means[n].fill_null(0).ne(0).any()))


def _with_mpi(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    """Add to OCCURRENCE `mpi_ns`, the time that its task is in MPI calls meanwhile."""
    calls = run.calls.filter(pl.col("kind") == MPI)
    if calls.is_empty() or steps.is_empty():
        return steps.with_columns(mpi_ns=pl.lit(0, pl.Int64))
    task, start, end = (steps[c].to_numpy() for c in ("task", "start", "end"))
    axis = axis_over(one_span(int(start.min()), int(end.max())), len(run.tasks))
    spans = covered_by(axis, calls, "task")
    return steps.with_columns(
        mpi_ns=pl.Series(time_in(spans, axis.at(task, end)) - time_in(spans, axis.at(task, start)))
    )


def _times_by_device(launched: pl.DataFrame) -> pl.DataFrame:
    """Return times of a frame of `projected` by _KEY and device: unions, begins and the last end (ns)."""
    computes, collective = pl.col("kind").is_in(USEFUL_KINDS), pl.col("kind") == NCCL
    grouped = launched.sort("start").group_by(*_KEY, "device")
    return grouped.agg(
        first=pl.col("start").first(),
        last=pl.col("end").max(),
        collective=pl.col("start").filter(collective).first(),
        compute_ns=covered_time(computes),
        communication_ns=covered_time(collective),
        either=covered_time(computes | collective),
    )


def _device_times(by_device: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Return _KEY, device_start_ns, _DEVICE_TIMES without idle_ns, and to_first_collective_ns of `_times_by_device`.

    `devices`: how many of them the iterations of each task use.
    """
    first, last = pl.col("first").min(), pl.col("last").max()
    table = by_device.join(devices, on="task").group_by(_KEY)
    return table.agg(
        device_start_ns=first,
        device_ns=last - first,
        compute_ns=_mean(pl.col("compute_ns")),
        communication_ns=_mean(pl.col("communication_ns")),
        exposed_ns=_mean(pl.col("either") - pl.col("compute_ns")),
        to_first_collective_ns=pl.col("collective").min() - first,
    )


def _idle_times(work: pl.DataFrame, by_device: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Return _KEY and idle_ns: the other iterations' work on the devices of a rank is no idle time of this one.

    `work`: WORK; `by_device`: of `_times_by_device`; `devices`: see `_device_times`.
    """
    lasting = by_device.group_by(_KEY).agg(pl.col("first").min(), pl.col("last").max())
    own = by_device.select("task", "device").unique().join(devices, on="task")
    each = lasting.join(own, on="task")
    if each.is_empty():
        return lasting.select(*_KEY, idle_ns=pl.lit(None, pl.Int64))
    device, first, last = (each[c].to_numpy() for c in ("device", "first", "last"))
    axis = axis_over(one_span(int(first.min()), int(last.max())), int(device.max()) + 1)
    spans = covered_by(axis, work, "device")
    busy = pl.Series(time_in(spans, axis.at(device, last)) - time_in(spans, axis.at(device, first)))
    times = each.with_columns(busy=busy).group_by(_KEY)
    return times.agg(idle_ns=pl.col("last").first() - pl.col("first").first() - _mean(pl.col("busy")))


def _phase_times(launched: pl.DataFrame, ranges: pl.DataFrame, devices: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield for each phase the device time of its ranges by task and iteration: _KEY, a column of ITERATION.

    `devices`: see `_device_times`.
    """
    named = with_phase(ranges)
    key = {"task": "task", "again": "repeat", "iteration": "number"}
    work = launched.rename({name: column for column, name in key.items()})
    for phase in PHASES:
        outer = occurrences(named.filter(phase=phase).with_columns(text=pl.lit("phase")), "phase")
        within = projected(work, outer).sort("start")
        times = within.group_by(*key, "device").agg(covered_time().alias(f"{phase}_ns")).join(devices, on="task")
        yield times.group_by(list(key)).agg(_mean(pl.col(f"{phase}_ns"))).rename(key)


def _mean(time: pl.Expr) -> pl.Expr:
    """Return the mean (ns, rounded down) of a time over the devices of a task, 0 on those without work of the group."""
    return time.sum() // pl.col("devices").first()


def compare_ranks(table: pl.DataFrame) -> Ranks | None:
    """Return fastest, most average and slowest rank, each with its slow iterations; None for fewer than two ranks."""
    means = table.group_by("rank").agg(pl.col("own_ns").mean()).sort("own_ns", "rank")
    if means.height < 2:
        return None
    away = (means["own_ns"] - float(means["own_ns"].mean())).abs()  # type: ignore[arg-type]
    median = pl.col("own_ns").median().over("iteration", "repeat")
    worst = pl.col("own_ns") == pl.col("own_ns").max().over("iteration", "repeat")
    slow = table.filter(worst & (pl.col("own_ns") > LEAST_SLOW_RATIO * median)).group_by("rank").len().sort("rank")
    return Ranks(
        fastest=int(means["rank"][0]),
        average=int(means["rank"][int(away.arg_min() or 0)]),
        slowest=int(means["rank"][-1]),
        slow={int(rank): int(count) for rank, count in slow.rows()},
    )

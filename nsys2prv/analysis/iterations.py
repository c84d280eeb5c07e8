"""Iterations: their time on each rank, its parts, and the rank that the others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import NCCL, Run, covered_by, covered_time
from nsys2prv.analysis.phases import PHASES, main_ranges, occurrences, phase_of, projected
from nsys2prv.analysis.window import kept_iterations
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import one_span, time_in
from nsys2prv.run.steady import Window

# Parts of a step: a column each.
STAGES = tuple(PHASES)
# A rank is slow in an iteration when its own time is this much above the median of the ranks.
SLOW = 1.05

# `repeat` is how often the iteration's number came before on the rank. Times in ns. `total` is the range's on the host;
# `own` is the rank's without waiting for others: of the device's time all but exposed communication where there is
# NCCL, else of the host's all but MPI; `to_first_collective` is from the first device activity to the first NCCL kernel
# (null: none). The rest is of what the iteration launched: unions of intervals, `idle` within `device`, its first to
# last device activity.
ITERATION = {
    "rank": pl.Int64(),
    "iteration": pl.Int64(),
    "repeat": pl.Int64(),
    "steady": pl.Boolean(),
    "start_ns": pl.Int64(),
    "total_ns": pl.Int64(),
    "own_ns": pl.Int64(),
    "device_ns": pl.Int64(),
    "compute_ns": pl.Int64(),
    "communication_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    "mpi_ns": pl.Int64(),
    "to_first_collective_ns": pl.Int64(),
    **{f"{stage}_ns": pl.Int64() for stage in STAGES},
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


def iterations(run: Run, pattern: str, window: Window, found: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return ITERATION for each rank and iteration: OCCURRENCE `found`, or the ranges that `pattern` names."""
    ranges = main_ranges(run)
    found = occurrences(ranges, pattern) if found is None else found
    launched = projected(run.work, found)
    table = _with_mpi(run, found).join(_device_times(launched), on=_KEY, how="left")
    for times in _stage_times(launched, ranges):
        table = table.join(times, on=_KEY, how="left")
    steady = kept_iterations(window).with_columns(steady=pl.lit(True))
    table = table.join(steady, on=["number", "repeat"], how="left")
    # One basis for the whole table: device time where any of it has collectives, else host time.
    on_device = bool((launched["kind"] == NCCL).any())
    named = table.with_columns(
        pl.col(_DEVICE_TIMES).fill_null(0),
        rank=pl.col("task").replace_strict(run.ranks, return_dtype=pl.Int64),
        iteration="number",
        steady=pl.col("steady").fill_null(window.name != "steady"),
        start_ns="start",
        total_ns=pl.col("end") - pl.col("start"),
    )
    own = pl.col("device_ns") - pl.col("exposed_ns") if on_device else pl.col("total_ns") - pl.col("mpi_ns")
    return named.with_columns(own_ns=own).select(*ITERATION).sort("repeat", "iteration", "rank")


def _with_mpi(run: Run, found: pl.DataFrame) -> pl.DataFrame:
    """Add to OCCURRENCE `mpi_ns`, the time that its task is in MPI calls meanwhile."""
    calls = run.calls.filter(pl.col("kind") == "mpi")
    if calls.is_empty() or found.is_empty():
        return found.with_columns(mpi_ns=pl.lit(0, pl.Int64))
    task, start, end = (found[c].to_numpy() for c in ("task", "start", "end"))
    axis = axis_over(one_span(int(start.min()), int(end.max())), len(run.tasks))
    spans = covered_by(axis, calls, "task")
    return found.with_columns(
        mpi_ns=pl.Series(time_in(spans, axis.at(task, end)) - time_in(spans, axis.at(task, start)))
    )


def _device_times(launched: pl.DataFrame) -> pl.DataFrame:
    """Return _KEY, _DEVICE_TIMES and to_first_collective_ns of a frame of `projected`."""
    computes, collective = pl.col("kind").is_in(USEFUL_KINDS), pl.col("kind") == NCCL
    begin = pl.col("start").min()
    table = (
        launched.sort("start")
        .group_by(_KEY)
        .agg(
            device_ns=pl.col("end").max() - begin,
            compute_ns=covered_time(computes),
            communication_ns=covered_time(collective),
            either=covered_time(computes | collective),
            busy=covered_time(),
            to_first_collective_ns=pl.col("start").filter(collective).min() - begin,
        )
    )
    exposed, idle = pl.col("either") - pl.col("compute_ns"), pl.col("device_ns") - pl.col("busy")
    return table.with_columns(exposed_ns=exposed, idle_ns=idle).select(*_KEY, *_DEVICE_TIMES, "to_first_collective_ns")


def _stage_times(launched: pl.DataFrame, ranges: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield for each stage the device time (union) of its ranges by task and iteration: _KEY, a column of ITERATION."""
    texts = ranges.select(pl.col("text").unique()).with_columns(stage=phase_of(pl.col("text"))).drop_nulls()
    named = ranges.join(texts, on="text", maintain_order="left")
    key = {"task": "task", "again": "repeat", "iteration": "number"}
    work = launched.rename({name: column for column, name in key.items()})
    for stage in STAGES:
        outer = occurrences(named.filter(stage=stage).with_columns(text=pl.lit("stage")), "stage")
        within = projected(work, outer).sort("start")
        yield within.group_by(list(key)).agg(covered_time().alias(f"{stage}_ns")).rename(key)


def compare_ranks(table: pl.DataFrame) -> Ranks | None:
    """Return fastest, most average and slowest rank, each with its slow iterations; None for fewer than two ranks."""
    means = table.group_by("rank").agg(pl.col("own_ns").mean()).sort("own_ns", "rank")
    if means.height < 2:
        return None
    away = (means["own_ns"] - float(means["own_ns"].mean())).abs()  # type: ignore[arg-type]
    median = pl.col("own_ns").median().over("iteration", "repeat")
    worst = pl.col("own_ns") == pl.col("own_ns").max().over("iteration", "repeat")
    slow = table.filter(worst & (pl.col("own_ns") > SLOW * median)).group_by("rank").len().sort("rank")
    return Ranks(
        fastest=int(means["rank"][0]),
        average=int(means["rank"][int(away.arg_min() or 0)]),
        slowest=int(means["rank"][-1]),
        slow={int(rank): int(count) for rank, count in slow.rows()},
    )

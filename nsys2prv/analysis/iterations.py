"""Iterations: their time on each rank, its parts, and the rank that the others wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import NCCL, Run, covered, parts_by
from nsys2prv.analysis.phases import PHASES, by_occurrence, main_ranges, occurrences, phase_of, projected
from nsys2prv.intervals.spans import difference, one_span
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
    # One basis for the whole table: device time where any of it has collectives, else host time.
    on_device = bool((launched["kind"] == NCCL).any())
    texts = ranges.select(pl.col("text").unique()).with_columns(phase=phase_of(pl.col("text"))).drop_nulls()
    phased = ranges.join(texts, on="text", maintain_order="left")
    steady = {(number, repeat) for number, repeat in window.iterations}
    stages = {name: _stage(launched, phased.filter(phase=name)) for name in STAGES}
    by_task = parts_by(launched, "task")
    mpi = parts_by(run.calls.filter(pl.col("kind") == "mpi"), "task")
    rows = []
    for task, own in parts_by(found, "task").items():
        parts = by_occurrence(by_task.get(task, launched.clear()))
        in_mpi = covered(mpi.get(task, run.calls.clear()))
        for number, repeat, start, end in own.select("number", "repeat", "start", "end").rows():
            device = _device_times(parts.get((repeat, number), launched.clear()))
            outside_mpi = difference(one_span(start, end), in_mpi).total()
            alone = int(device["device_ns"] or 0) - int(device["exposed_ns"] or 0)
            rows.append(
                {
                    "rank": run.rank(task),
                    "iteration": number,
                    "repeat": repeat,
                    "steady": window.name != "steady" or (number, repeat) in steady,
                    "start_ns": start,
                    "total_ns": end - start,
                    "own_ns": alone if on_device else outside_mpi,
                    "mpi_ns": end - start - outside_mpi,
                    **device,
                    **{f"{name}_ns": times.get((task, repeat, number)) for name, times in stages.items()},
                }
            )
    return pl.DataFrame(rows, schema=ITERATION).sort("repeat", "iteration", "rank")


def _device_times(work: pl.DataFrame) -> dict[str, int | None]:
    computing = covered(work.filter(pl.col("kind").is_in(USEFUL_KINDS)))
    collectives = work.filter(pl.col("kind") == NCCL)
    communicating = covered(collectives)
    busy = covered(work)
    begin, end = (int(busy.start[0]), int(busy.end[-1])) if work.height else (0, 0)
    first = collectives["start"].min()
    return {
        "device_ns": end - begin,
        "compute_ns": computing.total(),
        "communication_ns": communicating.total(),
        "exposed_ns": difference(communicating, computing).total(),
        "idle_ns": end - begin - busy.total(),
        "to_first_collective_ns": None if first is None else int(first) - begin,  # type: ignore[arg-type]
    }


def _stage(launched: pl.DataFrame, named: pl.DataFrame) -> Mapping[tuple[int, int, int], int]:
    """Return the device time (union, ns) of a stage's ranges by (task, repeat, iteration)."""
    outer = occurrences(named.with_columns(text=pl.lit("stage")), "stage")
    within = projected(launched.rename({"number": "iteration", "repeat": "again"}), outer)
    return {
        (int(task), int(again), int(iteration)): covered(part).total()
        for (task, again, iteration), part in within.group_by("task", "again", "iteration")
    }


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

"""Iterations of a run without ranges that number them, found by work that repeats (see run/repeats.py)."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.frames import GRAPH, KERNEL, NCCL, Run
from nsys2prv.analysis.phases import OCCURRENCE
from nsys2prv.families.mpi.mpi import CALL_CLASSES
from nsys2prv.run.repeats import (
    LAUNCHED_WORK,
    OF_MPI,
    OPTIMIZER,
    choose_milestone,
    milestone_kind,
    numbered_steps,
    repeating_work,
)


class Repeats(NamedTuple):
    """Iterations by repeating work: its name, and OCCURRENCE from one milestone to the next on each task.

    `of_calls`: the milestones are calls of MPI.
    """

    milestone: str
    steps: pl.DataFrame
    of_calls: bool


def find_repeats(run: Run) -> Repeats | None:
    """Return the iterations by work that repeats regularly on every rank; None without any."""
    repeating = repeating_work(pl.concat([_device_work(run), _collective_calls(run)]))
    milestone = choose_milestone(repeating.found, repeating.processes, repeating.callers)
    if milestone is None:
        return None
    steps = numbered_steps(milestone.of(repeating.steps))
    occurring = steps.select("start", "end", "number", task="process", repeat=0, text=pl.lit(milestone.name))
    steps = occurring.select(pl.col(c).cast(t) for c, t in OCCURRENCE.items())
    return Repeats(milestone.name, steps, milestone.kind == OF_MPI)


def _device_work(run: Run) -> pl.DataFrame:
    launched = run.work.drop_nulls("launched")
    of_optimizer, kind = pl.col("family").cast(pl.String) == OPTIMIZER, pl.col("kind")
    of_milestone = milestone_kind(of_optimizer, kind == GRAPH, kind == NCCL, kind == KERNEL, pl.lit(False))
    work = launched.with_columns(of_milestone, process="task")
    return work.select(pl.col(c).cast(t) for c, t in LAUNCHED_WORK.items())


def _collective_calls(run: Run) -> pl.DataFrame:
    kind, name = pl.col("kind").cast(pl.String), pl.col("name").cast(pl.String)
    calls = run.calls.filter(kind == "mpi", name.str.contains(CALL_CLASSES["collective"]))
    calls = calls.with_columns(process="task", launched="start", bytes=None, kind=pl.lit(OF_MPI))
    return calls.select(pl.col(c).cast(t) for c, t in LAUNCHED_WORK.items())

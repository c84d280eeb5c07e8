"""Iterations of a run without ranges that number them, found by work that repeats: see run/iterations."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.frames import GRAPH, KERNEL, MPI, NCCL, Run
from nsys2prv.analysis.iterations.phases import OCCURRENCE
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.families.mpi.mpi import CALL_CLASSES
from nsys2prv.families.mpi.mpi_messages import TAKES_MESSAGE
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.iterations.milestone_kinds import (
    CALLS_OF_MPI,
    LAUNCHED_WORK,
    OPTIMIZER,
    milestone_kind,
)
from nsys2prv.run.iterations.milestones import choose_milestone, numbered_steps
from nsys2prv.run.iterations.repeats import repeating_work


class Repeats(NamedTuple):
    """Iterations by repeating work: its name, and OCCURRENCE from one milestone to the next on each task.

    `of_calls`: the milestones are calls of MPI.
    """

    milestone: str
    steps: pl.DataFrame
    of_calls: bool


def find_repeats(run: Run) -> Repeats | None:
    """Return the iterations by work that repeats regularly on every rank; None without any."""
    repeating = repeating_work(pl.concat([_device_work(run), _calls(run)]))
    milestone = choose_milestone(repeating.work, repeating.processes, repeating.callers)
    if milestone is None:
        return None
    steps = numbered_steps(milestone.of(repeating.steps))
    occurring = steps.select("start", "end", "number", task="process", repeat=0, text=pl.lit(milestone.name))
    steps = to_schema(occurring, OCCURRENCE)
    return Repeats(milestone.name, steps, milestone.kind in CALLS_OF_MPI)


def _device_work(run: Run) -> pl.DataFrame:
    launched = run.work.drop_nulls("launched")
    of_optimizer, kind = pl.col("family") == OPTIMIZER, pl.col("kind")
    of_milestone = milestone_kind(of_optimizer, kind == GRAPH, kind == NCCL, kind == KERNEL)
    work = launched.with_columns(of_milestone, process="task")
    return to_schema(work, LAUNCHED_WORK)


def _calls(run: Run) -> pl.DataFrame:
    """Return the calls of MPI that may be milestones: collectives, and those that end when a message has come."""
    patterns = zip(CALLS_OF_MPI, (CALL_CLASSES["collective"], TAKES_MESSAGE), strict=True)
    kind = pl.coalesce(pl.when(text_contains("name", pattern)).then(number) for number, pattern in patterns)
    calls = run.calls.filter(pl.col("kind") == MPI).with_columns(kind=kind).drop_nulls("kind")
    calls = calls.with_columns(process="task", launched="start", bytes=None)
    return to_schema(calls, LAUNCHED_WORK)

"""Iterations of a run without ranges that number them, found by work that repeats (see run/repeats.py)."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.frames import GRAPH, KERNEL, NCCL, Run
from nsys2prv.analysis.phases import OCCURRENCE
from nsys2prv.run.repeats import (
    LAUNCHED_WORK,
    OPTIMIZER,
    choose_milestone,
    milestone_kind,
    numbered_steps,
    repeating_work,
)


class Repeats(NamedTuple):
    """Iterations by repeating work: its name, and OCCURRENCE from one milestone to the next on each task."""

    milestone: str
    steps: pl.DataFrame


def find_repeats(run: Run) -> Repeats | None:
    """Return the iterations by work that repeats regularly on every rank with device activity; None without any."""
    launched = run.work.drop_nulls("launched")
    of_optimizer, kind = pl.col("family").cast(pl.String) == OPTIMIZER, pl.col("kind")
    of_milestone = milestone_kind(of_optimizer, kind == GRAPH, kind == NCCL, kind == KERNEL)
    work = launched.with_columns(of_milestone, process="task").select(
        pl.col(c).cast(t) for c, t in LAUNCHED_WORK.items()
    )
    repeating = repeating_work(work)
    milestone = choose_milestone(repeating.found, repeating.processes)
    if milestone is None:
        return None
    steps = numbered_steps(milestone.of(repeating.steps))
    occurring = steps.select("start", "end", "number", task="process", repeat=0, text=pl.lit(milestone.name))
    return Repeats(milestone.name, occurring.select(pl.col(c).cast(t) for c, t in OCCURRENCE.items()))

"""Launches of ranks: the host of one that launches far more than those of others has more to do than they."""

from __future__ import annotations

from statistics import median

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.long_steps import steps_of_ranks
from nsys2prv.analysis.facts.thresholds import LAUNCHES_MORE, LEAST_MORE, SAME_COUNT, SELDOM
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.iterations.phases import projected
from nsys2prv.analysis.sentences import counted
from nsys2prv.model.words import in_range

SHARED = (
    "See what it launches then and others do not (evaluation, checkpoints, logging): share that over the ranks, do it "
    "less often, or give it to a process that no rank waits for."
)


def advice_on_launches(case: Case, rank: int) -> str:
    """Return advice on a rank that launches far more than others in each iteration, or in a few; else an empty text."""
    by_step = _launches_by_step(case)
    usual = dict(by_step.group_by("rank").agg(pl.col("launches").median()).rows())
    if rank not in usual or len(usual) < 2:
        return ""
    others_usual = [usual[other] for other in usual if other != rank]
    if usual[rank] > LAUNCHES_MORE.value * median(others_usual):
        return (
            f"The host of rank {rank} launches {usual[rank]:,.0f} times an iteration, those of others "
            f"{in_range(min(others_usual), max(others_usual))} times: give ranks shares alike (layers of stages, rows "
            "of batches, cells), or launch less there (fused kernels, CUDA graphs)."
        )
    step = ["repeat", "number"]
    others = by_step.filter(pl.col("rank") != rank).group_by(step).agg(others=pl.col("launches").median())
    own = by_step.filter(rank=rank).join(others, on=step).sort(step)
    more = own.filter(pl.col("launches") > SAME_COUNT.value * pl.col("others"))
    counts = more.select(pl.col("launches", "others").sum()).row(0)
    enough = counts[0] - counts[1] >= LEAST_MORE.value * int(own["launches"].sum())
    if not (enough and 0 < more.height <= SELDOM.value * own.height):
        return ""
    launches, expected = (f"{count / more.height:,.0f}" for count in counts)
    of = " (the median)" if len(usual) > 2 else ""
    return (
        f"The host of rank {rank} launches {launches} times in {counted(more.select('number', 'repeat').rows())} "
        f"({more.height} of {own.height}), those of others {expected} times{of}. {SHARED}"
    )


def _launches_by_step(case: Case) -> pl.DataFrame:
    """Return repeat, number and rank of the iterations of the window, and how often the host launches all but NCCL.

    Ranks that launch nothing are left out. A graph is one launch.
    """
    steps = steps_of_ranks(case.run, case.held(case.analysis.iterations.filter("steady")))
    work = case.run.work.filter(pl.col("kind") != NCCL, pl.col("caller_row").is_not_null())
    launches = work.select("task", "caller_row", "launched").unique()
    key = ["task", "repeat", "number"]
    counts = projected(launches, steps).group_by(key).agg(launches=pl.len().cast(pl.Int64))
    every = steps.filter(pl.col("task").is_in(counts["task"].unique().implode())).select(key)
    ranks = pl.col("task").replace_strict(case.run.ranks, default=None)
    found = every.join(counts, on=key, how="left").with_columns(pl.col("launches").fill_null(0), rank=ranks)
    return found.drop_nulls("rank").sort("rank", "repeat", "number")

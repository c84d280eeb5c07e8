"""Launches of ranks: the host of one that launches far more than those of others has more to do than they."""

from __future__ import annotations

from statistics import median

import polars as pl

from nsys2prv.analysis.findings.case import Case
from nsys2prv.analysis.findings.long_steps import steps_of_ranks
from nsys2prv.analysis.findings.thresholds import LAUNCHES_MORE, LEAST_MORE, SAME_COUNT, SELDOM
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.phases import projected
from nsys2prv.analysis.sentences import counted

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
    of_others = median([usual[other] for other in usual if other != rank])
    if usual[rank] >= LAUNCHES_MORE.value * of_others:
        return (
            f"The host of rank {rank} launches {usual[rank]:,.0f} times an iteration, those of others "
            f"{of_others:,.0f} times: give ranks shares alike (layers of stages, rows of batches, cells), or launch "
            "less there (fused kernels, CUDA graphs)."
        )
    step = ["repeat", "number"]
    others = by_step.filter(pl.col("rank") != rank).group_by(step).agg(others=pl.col("launches").median())
    own = by_step.filter(rank=rank).join(others, on=step).sort(step)
    more = own.filter(pl.col("launches") > SAME_COUNT.value * pl.col("others"))
    counts = more.select(pl.col("launches", "others").sum()).row(0)
    excess = (counts[0] - counts[1]) / own["launches"].sum()
    if not 0 < more.height <= SELDOM.value * own.height or excess < LEAST_MORE.value:
        return ""
    launches, expected = (f"{count / more.height:,.0f}" for count in counts)
    return (
        f"The host of rank {rank} launches {launches} times in {counted(more.select('number', 'repeat').rows())} "
        f"({more.height} of {own.height}), those of others {expected} times. {SHARED}"
    )


def _launches_by_step(case: Case) -> pl.DataFrame:
    """Return repeat, number and rank of the iterations of the window, and how much work but of NCCL is launched."""
    steps = steps_of_ranks(case.analysis).filter("steady")
    work = case.run.work.filter(pl.col("kind") != NCCL, pl.col("caller_row") >= 0).select("task", "launched")
    counts = projected(work, steps).group_by("task", "repeat", "number").agg(launches=pl.len().cast(pl.Int64))
    ranks = pl.col("task").replace_strict(case.run.ranks, default=None)
    return counts.with_columns(rank=ranks).drop_nulls("rank").sort("rank", "repeat", "number")

"""Ranks that are late in turn: each in iterations of its own, so that the delays of one alone gain little."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.communication.delays import DELAY, KERNELS
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.ranks.lateness import Lateness
from nsys2prv.analysis.facts.thresholds import LIKE_MOST
from nsys2prv.analysis.graph.critical_path import HOST


def late_in_turn(case: Case, late: Lateness, others: pl.DataFrame) -> pl.DataFrame:
    """Return the delays (DELAY) of ranks that are late in turn with a late rank; no rows without such ranks.

    `others`: delays of the ranks that are not late all along. Delays of one phase count, if those of a rank last
    LIKE_MOST of those of the late rank together or longer: a replay without delays gains for all of these ranks.
    """
    own = case.held(case.analysis.delays).filter(pl.col("phase") != KERNELS, rank=late.rank)
    if own.is_empty() or not late.predicted or (late.cause and late.cause.kind != HOST):
        return pl.DataFrame(schema=DELAY)
    phase = own.sort("delay_ns")["phase"][-1]
    alike = others.filter(phase=phase)
    least = LIKE_MOST.value * int(own.filter(phase=phase)["delay_ns"].sum())
    return alike.filter(pl.col("delay_ns").sum().over("rank") >= least)

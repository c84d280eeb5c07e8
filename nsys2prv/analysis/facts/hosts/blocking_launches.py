"""Ranks whose launching calls return when their kernel has ended, as CUDA_LAUNCH_BLOCKING=1 makes them do."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.thresholds import BLOCKING
from nsys2prv.analysis.idle.launches import blocking_shares

UNSET = "Unset CUDA_LAUNCH_BLOCKING, which is for debugging, and leave out tools that set it."


@once
def blocking_ranks(case: Case) -> frozenset[int]:
    """Return the ranks nearly all of whose launches return when their kernel has ended."""
    launches = case.analysis.launches.filter(pl.col("rank").is_not_null() & pl.col("name").is_null())
    # The shares cost a pass over all calls; where one is high, the median call is longer than the median kernel.
    if launches.filter(pl.col("call_p50_ns") >= pl.col("kernel_p50_ns")).is_empty():
        return frozenset()
    shares = blocking_shares(case.run, case.analysis.window.spans)
    return frozenset(rank for rank, share in shares.items() if share >= BLOCKING.value)


def advice_on_blocking(case: Case, rank: int) -> str:
    """Return what to do about a rank whose launches wait for their kernels; else an empty text."""
    if rank not in blocking_ranks(case):
        return ""
    return f"Each launch of rank {rank} waits until its kernel has ended. {UNSET}"

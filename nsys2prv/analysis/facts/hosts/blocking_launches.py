"""Ranks whose launching calls return when their kernel has ended, as CUDA_LAUNCH_BLOCKING=1 makes them do."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.thresholds import BLOCKING
from nsys2prv.analysis.idle.launches import blocking_launches

UNSET = "Unset CUDA_LAUNCH_BLOCKING, which is for debugging, and leave out tools that set it."


def all_block(case: Case) -> bool:
    """Return True if nearly all launches of the run return when their kernel has ended."""
    launches = _launches(case)
    return int(launches["blocking"].sum()) >= BLOCKING.value * max(int(launches["kernels"].sum()), 1)


def blocking_ranks(case: Case) -> list[int]:
    """Return the ranks nearly all of whose launches return when their kernel has ended."""
    enough = pl.col("blocking") >= BLOCKING.value * pl.col("kernels")
    return _launches(case).filter(enough)["rank"].drop_nulls().to_list()


@once
def _launches(case: Case) -> pl.DataFrame:
    """Return rank, `kernels` and `blocking` of blocking_launches; nothing where no rank can have many of them."""
    launches = case.analysis.launches.filter(pl.col("name").is_null())
    found = pl.DataFrame(schema={"rank": pl.Int64(), "kernels": pl.UInt32(), "blocking": pl.UInt32()})
    # They cost a pass over all calls; where many block, the median call is longer than the median kernel.
    if launches.filter(pl.col("call_p50_ns") >= pl.col("kernel_p50_ns")).is_empty():
        return found
    return blocking_launches(case.run, case.analysis.window.spans)


def advice_on_blocking(case: Case, rank: int) -> str:
    """Return what to do about a rank whose launches wait for their kernels; else an empty text."""
    if rank not in blocking_ranks(case):
        return ""
    return f"Each launch of rank {rank} waits until its kernel has ended. {UNSET}"

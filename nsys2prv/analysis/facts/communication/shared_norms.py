"""Batch normalization over the batches of all ranks: in each such layer ranks wait for one another."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.common_advice import CommonAdvice, parts_on
from nsys2prv.analysis.frames import NCCL

# The kernel by which torch.nn.SyncBatchNorm merges the statistics of all ranks; other normalization has none of it.
MERGED = "batch_norm_reduce_statistics_kernel"


def advice_on_shared_norms(case: Case) -> str:
    """Return advice where layers normalize over the batches of all ranks, and a blank; else an empty text.

    SyncBatchNorm gathers statistics forward, reduces gradients of them backward, and selects the ranks with a batch by
    masks, for which the host waits (torch/nn/modules/_functions.py). BatchNorm loses accuracy with fewer than 16
    samples (Wu and He 2018, Group Normalization).
    """
    merged = case.kernels.filter(pl.col("name") == MERGED)
    times = round(merged.height / max(merged["device"].n_unique(), 1) / case.step_count)
    if not times or not (case.run.work["kind"] == NCCL).any():
        return ""
    often = "once" if times == 1 else f"{times:,} times"
    return (
        f"Each rank normalizes {often} {case.unit} over the batches of all ranks (SyncBatchNorm): ranks wait for one "
        "another each time, forward and backward. Use BatchNorm where the batch of a rank is large enough (16 samples "
        "or more), or GroupNorm, which needs no other rank. "
    )


def common_norms(case: Case, advice: str) -> tuple[CommonAdvice, ...]:
    """Return what an advice has of advice_on_shared_norms, which several findings share."""
    return parts_on("norms", advice_on_shared_norms(case), "Normalize without other ranks, as said above. ", advice)

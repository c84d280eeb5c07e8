"""Many short NCCL operations in an iteration: their launches cost more than what they send."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import MANY_OPERATIONS, SHORT_KERNEL
from nsys2prv.analysis.frames import KERNEL, NCCL
from nsys2prv.analysis.interval_frames import whole_with_ns

MERGE = Words(
    general="one buffer, ncclGroupStart",
    pytorch="one buffer, larger bucket_cap_mb, torch.distributed._coalescing_manager",
    jax="one array, XLA_FLAGS=--xla_gpu_all_reduce_combine_threshold_bytes=...",
)


def advice_on_operations(case: Case, rank: int | None = None) -> str:
    """Return advice on short NCCL kernels if a rank (None: any) launches many, and they are half of its kernels.

    Else an empty text, also without iterations. A rank for which others wait does not wait in its own kernels: they
    take as long as the transfer.
    """
    own = pl.lit(True) if rank is None else pl.col("task").replace_strict(case.run.ranks, default=-1) == rank
    kernels = whole_with_ns(case.run.work.filter(pl.col("kind").is_in([NCCL, KERNEL]), own), case.analysis.window.spans)
    operations = kernels.filter(pl.col("kind") == NCCL)
    ranks = max(operations["task"].n_unique(), 1)
    count = operations.height / ranks / case.step_count
    many = count >= MANY_OPERATIONS.value and 2 * operations.height >= kernels.height
    if not case.analysis.window.iterations or not many or _median(operations["ns"]) >= SHORT_KERNEL.value:
        return ""
    return (
        f"A rank launches {count:.0f} NCCL kernels of {_median(operations['ns']) / 1000:.0f} us an iteration: merge "
        f"what they send into fewer, larger messages ({MERGE.of(case.framework)})."
    )


def _median(ns: pl.Series) -> float:
    """Return the median of times (ns), 0 of none."""
    return float(ns.median() or 0)  # type: ignore[arg-type]

"""Chains of elementwise kernels, and the loops over tensors that launch the long ones."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.kernel_families import COPIES, ELEMENTWISE
from nsys2prv.analysis.facts.thresholds import AVERAGED, LOOP_OVER_TENSORS, LOOPED
from nsys2prv.analysis.frames import NCCL
from nsys2prv.model.units import text_ms

ONE_FOR_ALL = Words(
    general="one kernel can go over all tensors of a list",
    pytorch="`fused=True` or `foreach=True` of the optimizer, `torch._foreach_*` functions for weights and gradients, "
    "or torch.compile launches a few for all tensors",
    jax="one jax.jit around the whole loop launches a few for all arrays",
    cupy="cupy.fuse or a kernel of your own over one array launches a few",
)
# Where such a kernel follows each NCCL kernel.
AVERAGE_AT_ONCE = Words(
    general="let NCCL average (ncclAvg), and send one buffer for many tensors",
    pytorch="DistributedDataParallel averages them beside the backward pass; else put them in one flat buffer, and "
    "all_reduce that with ReduceOp.AVG",
    jax="one jax.lax.pmean of the whole tree, within one jax.jit, averages all",
)


@once
def elementwise_chains(case: Case) -> pl.DataFrame:
    """Return `start`, `end`, `ns`, `longest` (ns) and `work` (rows of Run.work) of each chain of two kernels or more.

    `ns` is the time of its kernels, `longest` that of the longest.
    A chain is a row of elementwise kernels of a stream in an iteration, with nothing but casts and copies between them.
    """
    elementwise, of_chain = pl.col("family") == ELEMENTWISE, pl.col("family").is_in([ELEMENTWISE, COPIES])
    # A stream may hold nothing else, as of a stencil.
    another = (pl.col(c).ne_missing(pl.col(c).shift(1)) for c in ("row", "repeat", "number"))
    begins = pl.any_horizontal(~of_chain.fill_null(False), *another)
    numbered = case.ordered.with_columns(chain=begins.cum_sum()).filter(elementwise)
    grouped = numbered.group_by("device", "row", "chain", maintain_order=True).agg(
        "work", pl.col("start").first(), pl.col("end").last(), pl.col("ns").sum(), longest=pl.col("ns").max()
    )
    return grouped.filter(pl.col("work").list.len() > 1).select("start", "end", "ns", "longest", "work")


def kernels_in_loops(case: Case) -> float:
    """Return how many kernels loops over tensors launch (of a device, an iteration)."""
    return case.of_device(int(_loops(case)["work"].list.len().sum()))


def advice_on_loops(case: Case, kernels: float) -> str:
    """Return advice where loops over tensors launch many of the kernels; else an empty text.

    `kernels`: of a device, an iteration.
    """
    looped = kernels_in_loops(case)
    if looped < LOOPED.value * kernels:
        return ""
    if (after := _kernels_after_nccl(case)) >= AVERAGED.value * looped:
        return (
            f"{after:,.0f} of the kernels are elementwise ones, each after an NCCL kernel, as where gradients are "
            f"averaged one by one: {AVERAGE_AT_ONCE.of(case.framework)}. "
        )
    ns = case.of_device(int(_loops(case).select((pl.col("end") - pl.col("start")).sum()).item()))
    return (
        f"{looped:,.0f} of the kernels are elementwise ones in a row, as of a loop over parameters, {text_ms(ns)} from "
        f"the first to the last: {ONE_FOR_ALL.of(case.framework)}. "
    )


def _loops(case: Case) -> pl.DataFrame:
    """Return the chains (see elementwise_chains) that are so long that they must be loops over tensors."""
    return elementwise_chains(case).filter(pl.col("work").list.len() >= LOOP_OVER_TENSORS.value)


def _kernels_after_nccl(case: Case) -> float:
    """Return how many kernels of loops come after an NCCL kernel each (of a device, an iteration).

    An NCCL kernel counts once in a loop, for the kernel that begins next after it.
    """
    numbered = _loops(case).with_row_index("chain").select("chain", "work").explode("work")
    looped = numbered.join(case.kernels.select("work", "device", "start"), on="work").sort("start")
    nccl = case.run.work.filter(pl.col("kind") == NCCL)
    begun = nccl.select("device", "start", begun="start").sort("start")
    placed = looped.join_asof(begun, on="start", by="device", check_sortedness=False).drop_nulls("begun")
    return case.of_device(placed.select("chain", "begun").unique().height)

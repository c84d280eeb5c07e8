"""Chains of elementwise kernels, and the loops over tensors that launch the long ones."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.kernel_families import COPIES, ELEMENTWISE
from nsys2prv.analysis.facts.thresholds import LOOP_OVER_TENSORS, PART_OF_LAUNCHES

ONE_FOR_ALL = Words(
    general="one kernel can go over all tensors of a list",
    pytorch="`fused=True` or `foreach=True` of the optimizer, `torch._foreach_*` functions for weights and gradients, "
    "or torch.compile launches a few for all tensors",
    jax="one jax.jit around the whole loop launches a few for all arrays",
    cupy="cupy.fuse or a kernel of your own over one array launches a few",
)


@once
def elementwise_chains(case: Case) -> pl.DataFrame:
    """Return `start`, `ns`, `longest` (ns) and `work` (rows of Run.work) of each chain of two kernels or more.

    A chain is a row of elementwise kernels of a stream in an iteration, with nothing but casts and copies between them.
    """
    elementwise, of_chain = pl.col("family") == ELEMENTWISE, pl.col("family").is_in([ELEMENTWISE, COPIES])
    # A stream may hold nothing else, as of a stencil.
    another = (pl.col(c).ne_missing(pl.col(c).shift(1)) for c in ("row", "repeat", "number"))
    begins = pl.any_horizontal(~of_chain.fill_null(False), *another)
    numbered = case.ordered.with_columns(chain=begins.cum_sum()).filter(elementwise)
    grouped = numbered.group_by("device", "row", "chain", maintain_order=True).agg(
        "work", pl.col("start").first(), pl.col("ns").sum(), longest=pl.col("ns").max()
    )
    return grouped.filter(pl.col("work").list.len() > 1).select("start", "ns", "longest", "work")


def advice_on_loops(case: Case, kernels: float) -> str:
    """Return advice where loops over tensors launch many of the kernels; else an empty text.

    `kernels`: of a device, an iteration.
    """
    lengths = elementwise_chains(case)["work"].list.len()
    looped = case.of_device(int(lengths.filter(lengths >= LOOP_OVER_TENSORS.value).sum()))
    if looped < PART_OF_LAUNCHES.value * kernels:
        return ""
    return (
        f"{looped:,.0f} of the kernels are elementwise ones in a row, as of a loop over parameters: "
        f"{ONE_FOR_ALL.of(case.framework)}. "
    )

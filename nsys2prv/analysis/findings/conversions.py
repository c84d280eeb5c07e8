"""Conversions, copies and transposes by kernels that take much of the device's time."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.devices.attention_scores import kernels_on_scores
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.kernel_families import COPIES
from nsys2prv.analysis.facts.thresholds import CONVERSIONS, CONVERSIONS_SAVED, HIGH, MOSTLY_JOINS
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.interval_frames import at_longest

ADVICE = Words(
    general="Keep one type and layout from kernel to kernel, convert inside of the kernels that compute, and copy "
    "outside of the loop.",
    pytorch="Keep one type and layout (channels_last, weights in BF16), fuse casts with torch.compile, and avoid "
    ".contiguous() and .to() in the loop.",
    jax="Keep one type and layout (weights and activations in bfloat16), put casts into the jax.jit that computes with "
    "them, and donate arrays that a step replaces (donate_argnums), which XLA copies else.",
    cupy="Keep one type and layout: .astype(), .copy() and ascontiguousarray() in the loop take a kernel each. Convert "
    "inside of the kernels that compute (cupy.fuse, ElementwiseKernel, a kernel of your own).",
)
# Kernels that join arrays, as PyTorch's CatArrayBatchedCopy and XLA's fusions around a concatenation.
JOINS = r"(?i)cat_?array|concat"
FILLED_IN_PLACE = Words(
    general="Most of it joins arrays, which copies all of them each time: allocate the largest size once and write "
    "each part to its place.",
    pytorch="Most of it joins arrays (torch.cat), which copies all of them each time: allocate the largest size once "
    "and write each part to its place, as for a cache that grows with each token.",
    jax="Most of it joins arrays (jnp.concatenate), which copies all of them each time: allocate the largest size once "
    "and write each part to its place (lax.dynamic_update_slice), as for a cache that grows with each token.",
)


def conversions(case: Case) -> Iterator[Finding]:
    """Yield what could be saved of conversions, if they take more than usual; those of scores are of attention."""
    of_scores = pl.col("work").is_in(kernels_on_scores(case)["work"].implode())
    copies = case.kernels.filter(pl.col("family") == COPIES, ~of_scores)
    total = int(copies["ns"].sum())
    share = case.share_of_compute(total)
    if share < CONVERSIONS.value:
        return
    time = case.kernel_time(total, (pl.col("family") == COPIES) & ~of_scores)
    saved = CONVERSIONS_SAVED.value * time.saved_at_most
    by_name = copies.group_by(pl.col("name").cast(pl.String)).agg(pl.col("ns").sum()).sort(-pl.col("ns"), "name")
    joined = int(by_name.filter(pl.col("name").str.contains(JOINS))["ns"].sum())
    joins = joined >= MOSTLY_JOINS.value * total
    yield Finding(
        "conversions",
        f"Casts, copies and transposes take {100 * share:.0f} % of compute, {time.text}",
        saved,
        (FILLED_IN_PLACE if joins else ADVICE).of(case.framework),
        evidence={"conversions_ns": round(time.device_ns), "kernels": by_name["name"].head(5).to_list()},
        confidence="low",
        command="nsys2prv analyze RUN --show kernels,classes",
        cfg="analysis/kernel_time_by_class",
        at_ns=int(copies.select(at_longest("ns")).item()),
        severity=None if saved < HIGH.value * case.iteration_ns else "medium",
    )

"""Unfused elementwise work: chains of kernels that each read what the one before wrote."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.devices.attention_scores import kernels_on_scores
from nsys2prv.analysis.facts.devices.elementwise_chains import elementwise_chains
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import CHAINS
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.model.units import text_ms

ADVICE = Words(
    general="Fuse them: one kernel reads and writes memory once for a whole chain (a kernel of your own; "
    "torch.compile, jax.jit, cupy.fuse).",
    pytorch="Fuse them: torch.compile or a kernel of your own reads and writes memory once for a whole chain; fused "
    "activations, losses and optimizers do the same.",
    jax="Fuse them: XLA reads and writes memory once for a whole chain that is in one jax.jit, so compile the whole "
    "step rather than its parts.",
    cupy="Fuse them: cupy.fuse, ElementwiseKernel or a kernel of your own reads and writes memory once for a whole "
    "chain.",
    cuda="Fuse them: one kernel of your own reads and writes memory once for a whole chain.",
)


def unfused_elementwise(case: Case) -> Iterator[Finding]:
    """Yield what one kernel in place of each chain of elementwise kernels saves: all but the longest of each chain.

    Those of scores are of attention.
    """
    of_scores = kernels_on_scores(case)["work"].implode()
    chains = elementwise_chains(case).filter(~pl.col("work").list.first().is_in(of_scores))
    lost = float((chains["ns"] - chains["longest"]).sum())
    share = case.share_of_compute(lost)
    if chains.is_empty() or share < CHAINS.value:
        return
    members = chains["work"].explode()
    time = case.kernel_time(lost, pl.col("work").is_in(members.implode()))
    yield Finding(
        "unfused-elementwise",
        f"Elementwise kernels run one after another and are not fused: {100 * share:.0f} % of compute, "
        f"{text_ms(time.device_ns)} {case.unit}, could be saved",
        time.saved_at_most,
        ADVICE.of(case.framework),
        evidence={
            "saved_ns": round(time.device_ns),
            "on_critical_path_ns": round(time.path_ns),
            "kernels_in_a_chain": round(len(members) / chains.height, 1),
            "chains": round(chains.height / case.step_count),
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show kernels,classes",
        cfg="views/kernel_classes",
        at_ns=int(chains.sort("ns", "start")["start"][-1]),
    )

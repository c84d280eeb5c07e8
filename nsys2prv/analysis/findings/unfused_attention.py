"""Unfused attention: kernels on the scores of each layer, which fused attention does not have, take much of compute."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.devices.attention_scores import kernels_on_scores
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.interval_frames import at_longest

FUSED = Words(
    general="FlashAttention, that of cuDNN",
    pytorch="torch.nn.functional.scaled_dot_product_attention, FlashAttention; attn_implementation in Hugging Face",
    jax="jax.nn.dot_product_attention with implementation='cudnn'",
)


def unfused_attention(case: Case) -> Iterator[Finding]:
    """Yield the time of kernels on scores: softmax, launched several times an iteration, and those around it."""
    scores = kernels_on_scores(case)
    if scores.is_empty():
        return
    total = float(scores["ns"].sum())
    time = case.kernel_time(total, pl.col("work").is_in(scores["work"].implode()))
    softmax = scores.filter("softmax")
    around = "" if softmax.height == scores.height else " and those that mask, scale or cast scores"
    yield Finding(
        "unfused-attention",
        f"Softmax kernels{around} take {100 * case.share_of_compute(total):.0f} % of compute, {time.text}: attention "
        "is not fused",
        time.saved_at_most,
        f"Use fused attention ({FUSED.of(case.framework)}): scores stay on the chip, so that their masks, scales and "
        "casts take no kernels, either.",
        evidence={
            "scores_ns": round(time.device_ns),
            "softmax_ns": round(case.of_device(int(softmax["ns"].sum()))),
            "on_critical_path_ns": round(time.path_ns),
            "kernels": softmax["name"].cast(pl.String).unique().sort().head(5).to_list(),
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show kernels,classes",
        cfg="analysis/kernel_time_by_class",
        at_ns=int(softmax.select(at_longest("ns")).item()),
    )

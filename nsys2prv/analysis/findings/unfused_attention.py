"""Unfused attention: softmax kernels of each layer, which fused attention does not have, take much of compute."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import SOFTMAX, SOFTMAX_LAUNCHES
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.interval_frames import at_longest

CLASS, LOSS = "softmax", "loss"
FUSED = Words(
    general="FlashAttention, that of cuDNN",
    pytorch="torch.nn.functional.scaled_dot_product_attention, FlashAttention; attn_implementation in Hugging Face",
    jax="jax.nn.dot_product_attention with implementation='cudnn'",
)


def unfused_attention(case: Case) -> Iterator[Finding]:
    """Yield the time of softmax kernels that are launched several times an iteration, as in each layer of a model.

    Fused attention also saves the masks, scales and casts of scores: the time of softmax is the least that it saves.
    """
    if not case.analysis.window.iterations:
        return
    softmax = _of_layers(case)
    total = float(softmax["ns"].sum())
    share = case.share_of_compute(total)
    if softmax.is_empty() or share < SOFTMAX.value:
        return
    time = case.kernel_time(total, pl.col("work").is_in(softmax["work"].implode()))
    yield Finding(
        "unfused-attention",
        f"Softmax kernels take {100 * share:.0f} % of compute, {time.text}: attention is not fused",
        time.saved_at_most,
        f"Use fused attention ({FUSED.of(case.framework)}): scores stay on the chip, so that their masks, scales and "
        "casts take no kernels, either.",
        evidence={
            "softmax_ns": round(time.device_ns),
            "on_critical_path_ns": round(time.path_ns),
            "kernels": softmax["name"].cast(pl.String).unique().sort().head(5).to_list(),
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show kernels,classes",
        cfg="analysis/kernel_time_by_class",
        at_ns=int(softmax.select(at_longest("ns")).item()),
    )


def _of_layers(case: Case) -> pl.DataFrame:
    """Return softmax kernels of the window (WORK, `work`: row of Run.work, `ns`) without those of a loss or of a token.

    A loss or the choice of a token takes one softmax each time, a model's layers several of one grid.
    """
    known = case.kernels.filter(pl.col("class").is_in([CLASS, LOSS]))
    losses = known.filter(pl.col("class") == LOSS).group_by("device", "name").len()["len"].max()
    least = max(SOFTMAX_LAUNCHES.value * case.step_count, int(losses or 0) + 1)  # type: ignore[arg-type]
    softmax = known.filter(pl.col("class") == CLASS)
    return softmax.filter(pl.len().over("device", "name", "shape") >= least)

"""Kernels of one name and grid that run at most once an iteration on their device, and take longer in some."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.thresholds import FEWEST_PLACES, NEAR, TWO_LENGTHS, VARYING
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.interval_frames import at_longest, whole_with_ns
from nsys2prv.errors import short
from nsys2prv.model.units import text_ms


def varying_kernels(case: Case) -> Iterator[Finding]:
    """Yield the kernel that loses most time against its median of all iterations.

    What is not on the critical path costs nothing.
    """
    if case.step_count < FEWEST_PLACES.value:
        return
    work = whole_with_ns(case.run.work.filter(pl.col("kind").is_in(USEFUL_KINDS)), case.analysis.window.spans)
    spread = (
        work.group_by("device", "task", "name", "shape")
        .agg(
            count=pl.len(),
            ratio=pl.col("ns").quantile(0.9) / pl.col("ns").quantile(0.1),
            short=pl.col("ns").quantile(0.1),
            long=pl.col("ns").quantile(0.9),
            in_two=_near(0.1) + _near(0.9),
            usual=pl.col("ns").median(),
            lost=(pl.col("ns") - pl.col("ns").median()).clip(lower_bound=0).sum(),
            longest=pl.col("ns").max(),
            at=at_longest("ns"),
        )
        # A kernel that comes several times an iteration may do other work each time.
        .filter(
            pl.col("count") <= case.step_count, pl.col("count") >= FEWEST_PLACES.value, pl.col("ratio") > VARYING.value
        )
        .sort(-pl.col("lost"), "name", "device", "task", "shape")
    )
    if spread.is_empty():
        return
    task, name, ratio, usual, lost, longest, at, *modes = spread.select(
        "task", pl.col("name").cast(pl.String), *("ratio", "usual", "lost", "longest", "at", "short", "long", "in_two")
    ).row(0)
    cost = min(lost / case.step_count, case.on_path(pl.col("name") == name))
    two = modes[2] >= TWO_LENGTHS.value
    lengths = (
        f"either {text_ms(modes[0])} or {text_ms(modes[1])}"
        if two
        else f"{text_ms(usual)}, and up to {text_ms(longest)}"
    )
    yield Finding(
        "varying-kernels",
        f"`{short(name, 40)}` takes {lengths}: {text_ms(cost)} {case.unit}",
        cost,
        "Compare its slow and fast runs in the trace: what runs beside it, clocks (nvidia-smi -q -d PERFORMANCE), and "
        "input that differs.",
        ranks=(case.run.rank(task),),
        evidence={
            "kernel": name,
            "p90_by_p10": round(ratio, 3),
            "median_ns": round(usual),
            "longest_ns": longest,
            "of_two_lengths": two,
        },
        confidence="low",
        command="nsys2prv analyze RUN --show kernels",
        cfg="analysis/kernel_durations_beside_nccl",
        at_ns=int(at),
    )


def _near(quantile: float) -> pl.Expr:
    """Return the share of a group's times near a quantile, to aggregate by."""
    time = pl.col("ns")
    return ((time / time.quantile(quantile) - 1).abs() < NEAR.value).mean()

"""Kernels of one name and grid that run at most once an iteration on their device, and take longer in some."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.thresholds import FEWEST_PLACES, NEAR, TWO_LENGTHS, VARYING
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.interval_frames import at_longest, whole_with_ns
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import short


def varying_kernels(case: Case) -> Iterator[Finding]:
    """Yield the kernel that loses most time against its median of all iterations.

    What is not on the critical path costs nothing.
    """
    if case.step_count < FEWEST_PLACES.value:
        return
    spread = _spread(case)
    if spread.is_empty():
        return
    most = spread.with_columns(pl.col("name").cast(pl.String)).row(0, named=True)
    name = most["name"]
    cost = min(most["lost"] / case.step_count, case.on_path(pl.col("name") == name))
    of_two_lengths = most["in_two"] >= TWO_LENGTHS.value
    lengths = (
        f"either {text_ms(most['short'])} or {text_ms(most['long'])}"
        if of_two_lengths
        else f"{text_ms(most['usual'])}, and up to {text_ms(most['longest'])}"
    )
    yield Finding(
        "varying-kernels",
        f"`{short(name, 40)}` takes {lengths}: {text_ms(cost)} {case.unit}",
        cost,
        "Compare its slow and fast runs in the trace: what runs beside it, clocks (nvidia-smi -q -d PERFORMANCE), and "
        "input that differs.",
        ranks=(case.run.rank(most["task"]),),
        evidence={
            "kernel": name,
            "p90_by_p10": round(most["ratio"], 3),
            "median_ns": round(most["usual"]),
            "longest_ns": most["longest"],
            "of_two_lengths": of_two_lengths,
        },
        confidence="low",
        command="nsys2prv analyze RUN --show kernels",
        cfg="analysis/kernel_durations_beside_nccl",
        at_ns=int(most["at"]),
    )


def _spread(case: Case) -> pl.DataFrame:
    """Return the times of the kernels that vary, what loses most first: device, task, name, shape and count of each.

    `short`, `long`: the 1st and 9th decile (ns), `ratio`: their quotient, `in_two`: the share (of 1) of the times near
    them; `usual`: the median, `lost`: what all take longer than that, `longest`, and `at`, its begin (ns).
    """
    work = whole_with_ns(case.run.work.filter(pl.col("kind").is_in(USEFUL_KINDS)), case.analysis.window.spans)
    return (
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


def _near(quantile: float) -> pl.Expr:
    """Return the share of a group's times near a quantile, to aggregate by."""
    time = pl.col("ns")
    return ((time / time.quantile(quantile) - 1).abs() < NEAR.value).mean()

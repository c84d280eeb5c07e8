"""A GPU that another process uses, too: kernels of any kind now and then take longer by one and the same time slice."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.thresholds import (
    FEWEST_LAUNCHES,
    FEWEST_SLICES,
    KERNELS_IN_SLICES,
    LIKE_SLICES,
    OF_SHORT_KERNELS,
    SHORTEST_SLICE,
)
from nsys2prv.analysis.frames import KERNEL, lasting


def shared_gpu(case: Case) -> Iterator[Finding]:
    """Yield the GPU whose kernels lose most time in pauses of one length."""
    paused = _paused(case)
    middle = (pl.col("lost").quantile(0.75) - pl.col("lost").quantile(0.25)) / pl.col("lost").median()
    by_device = (
        paused.group_by("device")
        .agg(
            count=pl.len(),
            kernels=pl.col("name").n_unique(),
            spread=middle,
            slice=pl.col("lost").median(),
            lost=pl.col("lost").sum(),
            at=pl.col("start").first(),
        )
        .filter(
            pl.col("count") >= FEWEST_SLICES.value,
            pl.col("kernels") >= KERNELS_IN_SLICES.value,
            pl.col("spread") <= LIKE_SLICES.value,
        )
        .sort("lost", "device", descending=[True, False])
    )
    if by_device.is_empty():
        return
    number, count, kernels, _, length, lost, at = by_device.row(0)
    device = case.run.devices[number]
    users = case.run.work.filter(pl.col("device") == number)["task"].unique().sort()
    ranks = tuple(case.run.rank(task) for task in users)
    # Ranks that share a GPU pause in turns.
    cost = lost / len(ranks) / case.steps
    who = f"Ranks {', '.join(map(str, ranks))} share" if len(ranks) > 1 else "Another process shares"
    yield Finding(
        "shared-gpu",
        f"{who} GPU {device.gpu} of {device.host} in time slices: its kernels pause {count} times for "
        f"{text_ms(length)}, {text_ms(cost)} {case.unit}",
        cost,
        "Give each process a GPU of its own (CUDA_VISIBLE_DEVICES, the scheduler's binding), or let them run at one "
        "time by MPS; nvidia-smi lists the processes on a GPU.",
        ranks=ranks,
        iterations=case.iterations,
        evidence={"pauses": count, "kernels": kernels, "slice_ns": round(length)},
        confidence="medium",
        command="nsys2prv analyze RUN --show kernels",
        cfg="analysis/kernel_duration",
        at_ns=int(at),
    )


def _paused(case: Case) -> pl.DataFrame:
    """Return device, name, start and `lost` (ns above the median) of kernels that take far longer than usual."""
    work = lasting(case.run.work.filter(pl.col("kind") == KERNEL), case.found.window.spans)
    alike = ["device", "name", "shape"]
    known = work.select(*alike, "start", "ns", usual=pl.col("ns").median().over(alike), count=pl.len().over(alike))
    lost = pl.col("ns") - pl.col("usual")
    return known.filter(
        pl.col("count") >= FEWEST_LAUNCHES.value,
        lost >= SHORTEST_SLICE.value,
        lost >= OF_SHORT_KERNELS.value * pl.col("usual"),
    ).select("device", "name", "start", lost=lost)

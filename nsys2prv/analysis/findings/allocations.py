"""Allocation in the loop: the host allocates and frees device memory in iterations, and the device waits."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.starved import ALLOCATES


def allocations(case: Case) -> Iterator[Finding]:
    """Yield the time in which devices wait for launches while the host allocates or frees memory."""
    cost, mean = case.idle("allocating")
    if not cost or not case.found.window.iterations:
        return
    calls = case.found.api.filter(pl.col("kind") == "cuda", pl.col("name").str.contains(ALLOCATES))
    name, instances, total = calls.filter(pl.col("rank").is_null()).select("name", "instances", "total_ns").row(0)
    yield Finding(
        "allocations",
        f"Memory is allocated in the loop ({name}), and the device waits {text_ms(cost)} {case.unit}",
        cost,
        "Allocate once before the loop, or use a caching allocator (cudaMallocAsync with a pool that keeps memory; in "
        "PyTorch see memory_reserved and PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True).",
        ranks=tuple(calls["rank"].drop_nulls().unique().sort().to_list())[:8],
        iterations=case.iterations,
        evidence={"call": name, "calls": instances, "calls_ns": total, "idle_meanwhile_ns": round(mean)},
        command="nsys2prv analyze RUN --show api,idle",
        cfg="basics/cuda_api",
        at_ns=case.starved.sort("allocating")["at"][-1],
    )

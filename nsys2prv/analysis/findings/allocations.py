"""Allocation in the loop: the host allocates and frees device memory in iterations, and the device waits."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import covered, lasting, parts_by
from nsys2prv.intervals.spans import difference

ALLOCATES = r"^(?:cudaMalloc|cudaFree|cuMemAlloc|cuMemFree|cuMemCreate|cuMemMap|cudaHostAlloc)"


def allocations(case: Case) -> Iterator[Finding]:
    """Yield the time in such calls of iterations while a device of their rank has nothing to do."""
    run, spans = case.run, case.found.window.spans
    if not case.found.window.iterations:
        return
    calls = run.calls.filter((pl.col("kind") == "cuda") & pl.col("name").cast(pl.String).str.contains(ALLOCATES))
    inside = lasting(calls, spans)
    if inside.is_empty():
        return
    work = parts_by(run.work, "task")
    idle = {
        task: difference(covered(own, spans), covered(work.get(task, run.work.clear()))).total()
        for task, own in parts_by(inside, "task").items()
    }
    worst = max(idle, key=lambda task: (idle[task], -task))
    longest = inside.sort("ns")
    name, at = longest.select(pl.col("name").cast(pl.String), "start").row(-1)
    a_iteration = inside.height / case.steps / len(idle)
    yield Finding(
        "allocations",
        f"Memory is allocated in the loop ({name}): {text_ms(idle[worst] / case.steps)} {case.unit} of idle device",
        idle[worst] / case.steps,
        "Allocate once before the loop, or use a caching allocator (cudaMallocAsync with a pool that keeps memory; in "
        "PyTorch see memory_reserved and PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True).",
        ranks=tuple(sorted(run.rank(task) for task in idle))[:8],
        evidence={
            "calls_a_rank": round(a_iteration, 2),
            "calls_ns": round(inside["ns"].sum() / case.steps / len(idle)),
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show api",
        cfg="basics/cuda_api",
        at_ns=int(at),
    )

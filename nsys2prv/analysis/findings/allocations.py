"""Allocation in the loop: the host allocates or frees memory again and again, and the device waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.few_iterations import starved_in_few
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.hosts.long_calls import calls_meanwhile
from nsys2prv.analysis.facts.starved import IS_ALLOCATION, longest_at
from nsys2prv.analysis.facts.thresholds import ALL_ALONG, ONE_PLACE
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.model.units import text_ms

FROM_DRIVER = Words(
    general="Allocate once before the loop, or use a caching allocator: that of a framework, which keeps what it has "
    "(in PyTorch leave out torch.cuda.empty_cache()), or cudaMallocAsync.",
    pytorch="Let PyTorch's allocator keep its memory: leave out torch.cuda.empty_cache(), see memory_reserved, and set "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. Other libraries allocate by themselves: call them once before.",
    jax="Let JAX keep its memory: leave XLA_PYTHON_CLIENT_ALLOCATOR unset (`platform` asks the driver each time), and "
    "donate arrays that a step replaces (donate_argnums).",
    cupy="Let CuPy's memory pool keep what it has: leave out cupy.cuda.set_allocator(None) and free_all_blocks(). In "
    "the loop, write to arrays that are there (out=, numba.cuda.device_array before it).",
    cuda="Allocate once before the loop, also by handles of libraries (cublasCreate), or use a pool that keeps memory "
    "(cudaMallocAsync with cudaMemPoolAttrReleaseThreshold).",
)
# A pool gives its memory back at each synchronization unless its threshold says otherwise (CUDA programming guide,
# stream-ordered memory allocator).
FROM_POOL = (
    "Let the pool keep its memory: set cudaMemPoolAttrReleaseThreshold (cudaMemPoolSetAttribute), or allocate once "
    "before the loop."
)
# Pinned memory is locked page by page (CUDA runtime API, memory management).
FROM_HOST = Words(
    general="Pin memory once before the loop and reuse it: each page is locked when memory is pinned.",
    pytorch="Pin memory once before the loop and reuse it (DataLoader(pin_memory=True), or copy_ into a pinned "
    "buffer): each page is locked when memory is pinned.",
    cupy="Pin memory once before the loop and reuse it (cupyx.empty_pinned, numba.cuda.pinned_array): each page is "
    "locked when memory is pinned.",
    cuda="Pin memory once before the loop and reuse it (cudaMallocHost, cudaHostRegister): each page is locked when "
    "memory is pinned.",
)

ONCE = (
    "The first call of a program or a library also makes its context and loads code: make it, and large allocations, "
    "before the part that counts (warm up)."
)


def allocations(case: Case) -> Iterator[Finding]:
    """Yield the time in which devices wait for launches while the host allocates or frees memory.

    Without iterations it counts where it goes on all along, or is mostly in one long call.
    """
    cost, mean = case.idle("allocating")
    if not cost:
        return
    calls = case.kept_calls(case.run.calls.filter(IS_ALLOCATION))
    in_loop = bool(case.analysis.window.iterations) or _all_along(case)
    at = longest_at(case.starved, "allocating")
    if not in_loop:
        calls = _one_call(case, calls, mean)
        if calls.is_empty():
            return
        at = int(calls["start"][0])
    by_name = calls.group_by(pl.col("name").cast(pl.String)).agg(instances=pl.len(), ns=pl.col("ns").sum())
    name, instances, total = by_name.sort("ns", "name", descending=[True, False]).row(0)
    ranks = calls["task"].n_unique()
    what = "Memory is allocated in the loop" if in_loop else "One call takes long to allocate or free memory"
    yield Finding(
        "allocations",
        f"{what} ({name}), and the device waits {text_ms(cost)} {case.unit}" + starved_in_few(case, "allocating"),
        cost,
        ONCE if not in_loop and _is_first(case, calls) else _advice(case, name),
        ranks=named_ranks(case.run.rank(task) for task in calls["task"].unique()),
        iterations=case.iterations,
        evidence={
            "call": name,
            "calls": instances,
            "calls_ns": round(total / case.step_count / ranks),
            "idle_meanwhile_ns": round(mean),
        },
        command="nsys2prv analyze RUN --show api,idle",
        cfg="basics/cuda_api",
        at_ns=at,
    )


def _one_call(case: Case, calls: pl.DataFrame, idle: float) -> pl.DataFrame:
    """Return the longest call of the name that covers half of the time of devices during allocations; else none.

    It alone is half as long as that time. `calls`: CALLS that allocate, with `ns`; `idle`: that time (ns of an
    iteration, the mean).
    """
    meanwhile = calls_meanwhile(case, IS_ALLOCATION)
    least = ONE_PLACE.value * idle
    if meanwhile.is_empty() or meanwhile["each_ns"][0] < least:
        return calls.clear()
    of_name = calls.filter(pl.col("name").cast(pl.String) == str(meanwhile["name"][0]), pl.col("ns") >= least)
    return of_name.sort("ns", "start", "row").tail(1)


def _is_first(case: Case, call: pl.DataFrame) -> bool:
    """Return True for a call before its process uses a device: it may make the context."""
    own = case.run.work.filter(pl.col("task") == call["task"][0])
    return own.is_empty() or int(call["start"][0]) < int(own["start"].min())  # type: ignore[arg-type]


def _advice(case: Case, call: str) -> str:
    """Return the advice for the call that takes the longest."""
    return FROM_POOL if "Async" in call else (FROM_HOST if "Host" in call else FROM_DRIVER).of(case.framework)


def _all_along(case: Case) -> bool:
    """Return True if allocations come in nearly all tenths of a window without iterations: more than a start-up."""
    window = case.analysis.window
    calls = case.run.calls.filter(IS_ALLOCATION)
    in_tenths, _ = np.histogram(
        calls["start"].to_numpy(), bins=10, range=(window.start, max(window.end, window.start + 1))
    )
    return float((in_tenths > 0).mean()) >= ALL_ALONG.value

"""Data loading: devices wait while the main thread is in a range that loads data."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.few_iterations import starved_in_few
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.ranks.host_on_path import loading, waiting_title
from nsys2prv.analysis.facts.starved import longest_at
from nsys2prv.analysis.facts.thresholds import IN_TURN
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.iterations.phases import phase_of
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import short

ADVICE = Words(
    general="Prepare data in other threads or processes ahead of time, and copy it from pinned memory while the device "
    "computes (PyTorch: DataLoader with num_workers and pin_memory; JAX: jax.device_put a step ahead).",
    pytorch="Prepare data in other processes ahead of time (DataLoader with num_workers, prefetch_factor, pin_memory, "
    "persistent_workers; DALI), and copy it with non_blocking=True.",
    jax="Prepare data in other processes ahead of time (Grain, tf.data with prefetch), and put it on the device a step "
    "ahead: jax.device_put does not wait.",
    cupy="Prepare data in other threads or processes ahead of time, in pinned memory (cupyx.empty_pinned, "
    "numba.cuda.pinned_array), and copy it on a stream of its own while kernels run.",
    cuda="Read data in another thread ahead of time, into pinned memory (cudaMallocHost), and copy it by "
    "cudaMemcpyAsync on a stream of its own while kernels run.",
)


def data_loading(case: Case) -> Iterator[Finding]:
    """Yield the time in which devices have nothing to do while data is loaded."""
    least, mean = case.idle("load")
    on_path = loading(case).unexplained_ns
    cost = max(least, on_path)
    if not cost:
        return
    loads = case.analysis.ranges.filter((phase_of(pl.col("range")) == "load").fill_null(False))
    # At the end of the window devices may wait for hosts that are beyond its iterations: no range of these loads.
    name = loads.sort("host_ns", "range")["range"][-1] if loads.height else "load"
    in_turn = cost > IN_TURN.value * least
    yield Finding(
        "data-loading",
        waiting_title(f"{text_ms(cost)} {case.unit}", short(str(name), 40), in_turn) + starved_in_few(case, "load"),
        cost,
        ADVICE.of(case.framework),
        iterations=case.iterations,
        evidence={
            "range": name,
            "idle_while_loading_ns": round(mean),
            "on_critical_path_ns": round(on_path),
            "host_ns": round(loads["host_ns"].sum() / case.step_count / case.run.rank_count),
        },
        command="nsys2prv analyze RUN --show ranges,idle",
        cfg="views/nvtx_phases",
        at_ns=longest_at(case.starved, "load"),
    )

"""Managed memory that migrates between host and device on demand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.thresholds import FAULT, MEDIUM
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import COPY
from nsys2prv.analysis.idle.idle_gaps import activities_around
from nsys2prv.analysis.interval_frames import at_longest, covered_by, whole_with_ns
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans, Times, difference, time_in
from nsys2prv.model.units import text_ms

ADVICE = (
    "Prefetch (cudaMemPrefetchAsync) and advise (cudaMemAdvise) before kernels and host loops touch the memory, or use "
    "device memory with explicit copies."
)
TO_HOST = "Unified Device-to-Host"


def migrations(case: Case) -> Iterator[Finding]:
    """Yield the time in which pages migrate, and that of what waits for them, of the device with most of it.

    Kernels wait for pages, and so does a host that touches one page after another while its device idles.
    """
    spans = case.analysis.window.spans
    moved = whole_with_ns(case.run.work.filter(pl.col("kind") == COPY, text_contains("name", "^Unified")), spans)
    if moved.is_empty():
        return
    axis, others = axis_over(spans, len(case.run.devices)), case.run.work.filter(pl.col("kind") != COPY)
    pages = covered_by(axis, moved, "device", spans)
    start, end = (axis.at(others["device"].to_numpy(), others[c].to_numpy()) for c in ("start", "end"))
    kernels = others.filter(pl.Series(time_in(pages, end) > time_in(pages, start), dtype=pl.Boolean))
    both = pl.concat([part.select("device", "start", "end") for part in (moved, kernels)])
    migrating, waiting, time = (axis.sums(covered_by(axis, part, "device", spans)) for part in (moved, kernels, both))
    sizes, idle = moved["bytes"].drop_nulls(), _idle_for_host(case)
    back, cost = float(idle.max()) / case.step_count, float((time + idle).max()) / case.step_count
    told = back >= MEDIUM.value * case.iteration_ns
    waits = "and kernels and a host that wait for them" if told else "and kernels that wait for them"
    yield Finding(
        "migrations",
        f"Managed memory migrates on demand: pages, {waits}, take {text_ms(cost)} {case.unit}",
        cost,
        _of_host(back) * told + ADVICE,
        evidence={
            "copies": moved.height,
            "bytes": round(sizes.sum() / case.step_count / len(case.run.devices)),
            "bytes_a_copy": round(float(sizes.to_numpy().mean())) if sizes.len() else None,
            "migrating_ns": round(float(migrating.max()) / case.step_count),
            "kernels_meanwhile_ns": round(float(waiting.max()) / case.step_count),
            "idle_between_pages_to_host_ns": round(back),
        },
        command="nsys2prv analyze RUN --show memory,kernels",
        cfg="basics/page_faults",
        at_ns=int(moved.select(at_longest("ns")).item()),
    )


def _idle_for_host(case: Case) -> Times:
    """Return how long each device idles from one page that goes to the host to the next (ns).

    Meanwhile the host waits for a page that it touches. Of a longer time, in which it works, too, FAULT counts.
    """
    axis, work = axis_over(case.analysis.window.spans, len(case.run.devices)), case.run.work
    idle = difference(axis.spread(case.analysis.window.spans), covered_by(axis, work, "device"))
    around = activities_around(work, axis, idle.end)
    between = around.select(pl.all_horizontal(pl.col("after", "before") == TO_HOST)).fill_null(False).to_series()
    chosen = between.to_numpy()
    start, end = idle.start[chosen], idle.end[chosen]
    return axis.sums(Spans(start, np.minimum(end, start + FAULT.value)))


def _of_host(idle: float) -> str:
    """Return advice on pages that go back to the host one by one while a device idles (ns of an iteration)."""
    return (
        f"The device idles for {text_ms(idle)} between pages that the host faults back: prefetch them to the host "
        "(cudaMemPrefetchAsync to cudaCpuDeviceId) before it touches them. "
    )

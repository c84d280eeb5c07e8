"""Copies from and to pageable memory: they block the host, and the driver copies them twice."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.thresholds import PINNED_SAVED
from nsys2prv.analysis.frames import COPY, NCCL, covered_by, lasting
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import difference


def pageable_copies(case: Case) -> Iterator[Finding]:
    """Yield the time of copies of pageable memory beside which nothing else runs."""
    pageable = pl.col("memory").cast(pl.String).str.contains("Pageable").fill_null(False)
    spans = case.found.window.spans
    copies = lasting(case.run.work.filter((pl.col("kind") == COPY) & pageable), spans)
    other = case.run.work.filter(pl.col("kind").is_in([*USEFUL_KINDS, NCCL]))
    axis = axis_over(spans, len(case.run.devices))
    copying = covered_by(axis, copies, "device", spans)
    exposed = axis.sums(difference(copying, covered_by(axis, other, "device")))
    lost = int(exposed.max(initial=0)) / case.steps
    if not lost:
        return
    kinds = case.found.memory_kinds.filter(pl.col("rank").is_null() & pl.col("memory").str.contains("Pageable"))
    size, time = int(kinds["bytes"].sum()), int(kinds["total_ns"].sum())
    longest = copies.sort("ns")
    yield Finding(
        "pageable-copies",
        f"Copies of pageable memory take {text_ms(lost)} {case.unit} in which nothing else runs",
        PINNED_SAVED.value * lost,
        "Allocate host buffers as pinned memory (pin_memory=True, cudaMallocHost) and copy asynchronously on a stream "
        "of their own (non_blocking=True).",
        ranks=tuple(sorted({case.run.rank(task) for task in copies["task"].unique()}))[:8],
        evidence={
            "exposed_copies_ns": round(lost),
            "bytes": size,
            "gb_s": round(size / time, 3) if time else None,
            "kinds": kinds["memory"].to_list(),
        },
        command="nsys2prv analyze RUN --show memory-kinds",
        cfg="analysis/memory_bandwidth",
        at_ns=int(longest["start"][-1]),
    )

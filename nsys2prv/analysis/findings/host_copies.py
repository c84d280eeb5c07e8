"""Copies between host and device beside which nothing else runs, from and to pageable memory and other."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.thresholds import ATTAINABLE, PINNED_SAVED
from nsys2prv.analysis.frames import COPY, NCCL, covered_by, lasting
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import difference

_PAGEABLE = pl.col("memory").cast(pl.String).str.contains("Pageable").fill_null(False)
_WITH_HOST = pl.col("name").cast(pl.String).is_in(["Host-to-Device", "Device-to-Host"])


def pageable_copies(case: Case) -> Iterator[Finding]:
    """Yield the time of copies of pageable memory: they block the host, and the driver copies them twice."""
    yield from _exposed(
        case,
        _PAGEABLE,
        Finding(
            "pageable-copies",
            "Copies of pageable memory take",
            PINNED_SAVED.value,
            "Allocate host buffers as pinned memory (pin_memory=True, cudaMallocHost) and copy asynchronously on a "
            "stream of their own (non_blocking=True).",
        ),
    )


def exposed_copies(case: Case) -> Iterator[Finding]:
    """Yield the time of other copies between host and device, such as those of offloading."""
    yield from _exposed(
        case,
        _WITH_HOST & ~_PAGEABLE,
        Finding(
            "exposed-copies",
            "Copies between host and device take",
            ATTAINABLE.value,
            "Keep on the device what is needed again (recompute rather than offload), copy on a stream of their own "
            "while kernels run, fetch before use, and send fewer bytes.",
        ),
    )


def _exposed(case: Case, chosen: pl.Expr, finding: Finding) -> Iterator[Finding]:
    """Yield a finding about copies, in WORK, with their time beside which nothing else runs.

    `finding` has the begin of the title, and for the cost the share of that time which can be saved.
    """
    spans = case.found.window.spans
    copies = lasting(case.run.work.filter((pl.col("kind") == COPY) & chosen), spans)
    other = case.run.work.filter(pl.col("kind").is_in([*USEFUL_KINDS, NCCL]))
    axis = axis_over(spans, len(case.run.devices))
    copying = covered_by(axis, copies, "device", spans)
    exposed = axis.sums(difference(copying, covered_by(axis, other, "device")))
    lost = int(exposed.max(initial=0)) / case.steps
    if not lost:
        return
    kinds = case.found.memory_kinds.filter(pl.col("rank").is_null() & chosen)
    size, time = int(kinds["bytes"].sum()), int(kinds["total_ns"].sum())
    longest = copies.sort("ns")
    yield finding._replace(
        title=f"{finding.title} {text_ms(lost)} {case.unit} in which nothing else runs",
        cost_ns=finding.cost_ns * lost,
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

"""Managed memory that migrates between host and device on demand."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import COPY, covered, lasting
from nsys2prv.intervals.spans import time_in


def migrations(case: Case) -> Iterator[Finding]:
    """Yield the time in which pages migrate, and that of kernels which wait for them."""
    spans = case.found.window.spans
    unified = pl.col("name").cast(pl.String).str.starts_with("Unified")
    moved = lasting(case.run.work.filter((pl.col("kind") == COPY) & unified), spans)
    if moved.is_empty():
        return
    pages, others = covered(moved, spans), case.run.work.filter(pl.col("kind") != COPY)
    start, end = others["start"].to_numpy(), others["end"].to_numpy()
    kernels = others.filter(pl.Series(time_in(pages, end) > time_in(pages, start), dtype=pl.Boolean))
    both = pl.concat([moved.select("start", "end"), kernels.select("start", "end")])
    time = covered(both, spans).total() / case.steps
    sizes = moved["bytes"].drop_nulls()
    yield Finding(
        "migrations",
        f"Managed memory migrates on demand, and kernels wait for it: {text_ms(time)} {case.unit}",
        time,
        "Prefetch (cudaMemPrefetchAsync) and advise (cudaMemAdvise) before kernels and host loops touch the memory, or "
        "use device memory with explicit copies.",
        evidence={
            "copies": moved.height,
            "bytes": int(sizes.sum()),
            "bytes_a_copy": round(float(sizes.to_numpy().mean())) if sizes.len() else None,
            "migrating_ns": round(pages.total() / case.steps),
            "kernels_meanwhile_ns": round(covered(kernels, spans).total() / case.steps),
        },
        command="nsys2prv analyze RUN --show memory,kernels",
        cfg="basics/page_faults",
        at_ns=int(moved.sort("ns")["start"][-1]),
    )

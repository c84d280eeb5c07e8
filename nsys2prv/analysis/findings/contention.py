"""Contention: kernels take longer beside communication than alone."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.thresholds import CONTENDED, CONTENDED_SAVED
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.model.units import text_ms


def contention(case: Case) -> Iterator[Finding]:
    """Yield what kernels lose beside communication, by device and iteration, or in the window."""
    table = case.analysis.explanation.contention.with_columns(lost=pl.col("waiting_ns") + pl.col("transfer_ns"))
    factor = pl.max_horizontal("waiting", "transfer")
    slow = table.filter(factor > CONTENDED.value).sort("lost", "family", descending=[True, False])
    # The table is of all iterations, those left out too. Costs are of one, or of those that another window holds.
    every = case.analysis.iterations.select("iteration", "repeat").unique()
    counted = 1 if case.iterations or every.is_empty() else case.held(every).height
    if slow.is_empty() or not counted:
        return
    row = slow.row(0, named=True)
    each = counted / max(len(case.run.devices), 1) / max(every.height, 1)
    highest = max(row["waiting"] or 1.0, row["transfer"] or 1.0)
    lost = float(slow["lost"].sum()) * each
    yield Finding(
        "contention",
        f"{row['family']} kernels take {highest:.2f} times as long beside communication: {text_ms(lost)} {case.unit}",
        CONTENDED_SAVED.value * min(lost, case.on_path(pl.col("family").is_in(slow["family"].implode()))),
        "Let communication take fewer multiprocessors (NCCL_MAX_CTAS, NCCL_MAX_NCHANNELS), use copy "
        "engines where there are, and remove waiting: a kernel that waits slows its neighbors.",
        evidence={
            "family": row["family"],
            "beside_waiting": row["waiting"],
            "beside_transfer": row["transfer"],
            "waiting_ns": round(float(slow["waiting_ns"].sum()) * each),
            "transfer_ns": round(float(slow["transfer_ns"].sum()) * each),
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show contention",
        cfg="analysis/overlap_of_window",
    )

"""Small collectives: many in a row, each as long as its latency, where fewer and larger ones would take less."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.many_operations import MERGE
from nsys2prv.analysis.facts.small_rows import gain_of_merging, gaining, of_device, rows_of_small, saved
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.errors import bytes_text
from nsys2prv.model.units import text_ms


def small_collectives(case: Case) -> Iterator[Finding]:
    """Yield what merging small collectives gains: their exposed transfer, less that of merged ones."""
    rows = gaining(rows_of_small(case))
    gain = gain_of_merging(case, rows)
    if not gain:
        return
    by_operation = rows.group_by("operation").agg(pl.col("count", "bytes", "transfer_ns").sum(), lost=saved().sum())
    row = by_operation.sort("lost", "operation", descending=[True, False]).row(0, named=True)
    each, time = bytes_text(row["bytes"] // row["count"]), row["transfer_ns"] / row["count"] / 1e3
    count = of_device(case, rows, pl.col("count"))
    yield Finding(
        "small-collectives",
        f"{count:.0f} small collectives {case.unit} ({row['operation']} of {each}, {time:.0f} us each) follow each "
        f"other: merged, they take {text_ms(gain)} less",
        gain,
        f"Send their data in fewer, larger messages ({MERGE.of(case.framework)}): none of them waits for the result of "
        "the one before.",
        evidence={
            "operation": row["operation"],
            "collectives": round(count),
            "in_rows": round(case.of_device(rows.height)),
            "bytes": round(of_device(case, rows, pl.col("bytes"))),
            "transfer_ns": round(of_device(case, rows, pl.col("transfer_ns"))),
            "exposed_transfer_ns": round(of_device(case, rows, pl.col("exposed_ns"))),
            "merged_ns": round(of_device(case, rows, pl.col("merged_ns"))),
            "gain_without_transfers_ns": round(case.gain("transfer=0")),
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show nccl-bandwidths,communication",
        cfg="analysis/overlap_of_window",
        at_ns=rows.sort(saved(), "at").item(-1, "at"),
    )

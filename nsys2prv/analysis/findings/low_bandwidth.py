"""Low NCCL bandwidth: a communicator moves data slower than another does with the same operation."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import MOST_RANKS, Finding
from nsys2prv.analysis.findings.thresholds import ATTAINABLE, BANDWIDTH, BANDWIDTH_BYTES, UNMATCHED
from nsys2prv.analysis.waiting import ALL


def low_bandwidth(case: Case) -> Iterator[Finding]:
    """Yield the communicator that loses most time against the fastest one of its operation, waiting left out."""
    table = case.found.explanation.communication.filter(
        pl.col("operation") != ALL,
        pl.col("communicator").is_not_null(),
        pl.col("transfer_ns") > 0,
        pl.col("unmatched_ns") < UNMATCHED.value * pl.col("ns"),
    )
    by = table.group_by("communicator", "operation", "hosts").agg(
        pl.col("bytes", "transfer_ns", "activities").sum(), ranks=pl.col("rank").unique().sort()
    )
    rated = by.filter(pl.col("bytes") > BANDWIDTH_BYTES.value * pl.col("activities")).with_columns(
        rate=pl.col("bytes") / pl.col("transfer_ns")
    )
    best = rated.with_columns(best=pl.col("rate").max().over("operation", "hosts", pl.col("ranks").list.len()))
    slow = best.filter(pl.col("rate") < BANDWIDTH.value * pl.col("best"))
    lost = slow.with_columns(
        lost=pl.col("transfer_ns") * (1 - pl.col("rate") / pl.col("best")) / pl.col("ranks").list.len() / case.steps
    ).sort("lost", "communicator", descending=[True, False])
    if lost.is_empty():
        return
    row = lost.row(0, named=True)
    yield Finding(
        "low-bandwidth",
        f"{row['operation']} moves {row['rate']:.1f} GB/s on ranks {row['ranks'][:4]}, {row['best']:.1f} on others: "
        f"{text_ms(row['lost'])} {case.unit}",
        ATTAINABLE.value * row["lost"],
        "See which links these ranks use (nvidia-smi topo -m, NCCL_DEBUG=INFO): PCIe or the host's memory in place of "
        "NVLink, one network card for all GPUs, a wrong binding.",
        ranks=tuple(row["ranks"][:MOST_RANKS]),
        evidence={"operation": row["operation"], "gb_s": round(row["rate"], 3), "best_gb_s": round(row["best"], 3)},
        confidence="low",
        command="nsys2prv analyze RUN --show nccl-bandwidths,communication",
        cfg="analysis/nccl_time",
    )

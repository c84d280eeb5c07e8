"""Low NCCL bandwidth: a communicator moves data slower than another does with the same operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.communication.waiting import ALL_OPERATIONS
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.thresholds import ATTAINABLE, BANDWIDTH, BANDWIDTH_BYTES, UNMATCHED
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import few_ranks


def low_bandwidth(case: Case) -> Iterator[Finding]:
    """Yield the communicator that loses most time against the fastest one of its operation, waiting left out.

    The loss is that of a device, the mean, and no more than an ideal network gains: hidden transfers cost nothing.
    """
    devices = Counter(device.rank for device in case.run.devices)
    each = pl.col("transfer_ns") / pl.col("rank").replace_strict(devices, default=1, return_dtype=pl.Int64)
    table = case.analysis.explanation.communication.filter(
        pl.col("operation") != ALL_OPERATIONS,
        pl.col("communicator").is_not_null(),
        pl.col("transfer_ns") > 0,
        pl.col("unmatched_ns") < UNMATCHED.value * pl.col("ns"),
    )
    by = table.group_by("communicator", "operation", "hosts").agg(
        pl.col("bytes", "transfer_ns", "activities").sum(), ranks=pl.col("rank").unique().sort(), each=each.mean()
    )
    rated = by.filter(pl.col("bytes") > BANDWIDTH_BYTES.value * pl.col("activities")).with_columns(
        rate=pl.col("bytes") / pl.col("transfer_ns")
    )
    best = rated.with_columns(best=pl.col("rate").max().over("operation", "hosts", pl.col("ranks").list.len()))
    slow = best.filter(pl.col("rate") < BANDWIDTH.value * pl.col("best"))
    lost = slow.with_columns(lost=pl.col("each") * (1 - pl.col("rate") / pl.col("best")) / case.step_count)
    if lost.is_empty():
        return
    row = lost.sort("lost", "communicator", "operation", descending=[True, False, False]).row(0, named=True)
    cost = min(row["lost"], case.gain("transfer=0"))
    yield Finding(
        "low-bandwidth",
        f"{row['operation']} moves {row['rate']:.1f} GB/s on {few_ranks(row['ranks'])}, {row['best']:.1f} on others: "
        f"{text_ms(cost)} {case.unit}",
        ATTAINABLE.value * cost,
        "See which links these ranks use (nvidia-smi topo -m, NCCL_DEBUG=INFO): PCIe or the host's memory in place of "
        "NVLink, one network card for all GPUs, a wrong binding.",
        ranks=named_ranks(row["ranks"]),
        evidence={"operation": row["operation"], "gb_s": round(row["rate"], 3), "best_gb_s": round(row["best"], 3)},
        confidence="low",
        command="nsys2prv analyze RUN --show nccl-bandwidths,communication",
        cfg="analysis/nccl_time",
    )

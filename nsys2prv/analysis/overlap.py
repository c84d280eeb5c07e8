"""Overlap of each rank's communication with kernels that compute on the same device."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import NCCL, Run, covered, parts_by
from nsys2prv.intervals.spans import Spans, intersection

ALL = "all"
OVERLAP = {
    "rank": pl.Int64(),
    "communicator": pl.String(),
    "operation": pl.String(),
    "kernels": pl.Int64(),
    "bytes": pl.Int64(),
    "communication_ns": pl.Int64(),
    "overlapped_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
}


def overlap(run: Run, work: pl.DataFrame, window: Spans) -> pl.DataFrame:
    """Return communication by rank, communicator and operation (OVERLAP). Times are unions. Operation `all` has all.

    Communication is overlapped while kernels of any process compute on the same device; copies do not compute. If the
    reports lack the payload of a kernel's call, the operation is the kernel's class, and the bytes are null.
    """
    computing = {
        device: covered(part.filter(pl.col("kind").is_in(USEFUL_KINDS)), window)
        for device, part in parts_by(work, "device").items()
    }
    by_class = pl.col("class").cast(pl.String).str.strip_prefix("NCCL ")
    operation = pl.coalesce(pl.col("operation").cast(pl.String), by_class)
    collectives = work.filter(pl.col("kind") == NCCL).with_columns(operation)
    rows: list[tuple[object, ...]] = []
    for task, part in parts_by(collectives, "task").items():
        groups = part.group_by("communicator", "operation", maintain_order=True)
        named = [((None, ALL), part), *groups]
        for (communicator, operation), kernels in named:
            total = overlapped = 0
            for device, own in parts_by(kernels, "device").items():
                communicating = covered(own, window)
                total += communicating.total()
                overlapped += intersection(communicating, computing[device]).total()
            known = kernels["bytes"].drop_nulls()
            size = int(known.sum()) if len(known) else None
            times = total, overlapped, total - overlapped
            rows.append((run.rank(task), communicator, operation, kernels.height, size, *times))
    table = pl.DataFrame(rows, schema=OVERLAP, orient="row")
    return table.sort(pl.col("operation") != ALL, "rank", "communicator", "operation", nulls_last=True)

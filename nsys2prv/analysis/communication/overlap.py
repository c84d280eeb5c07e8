"""Overlap of each rank's communication with kernels that compute on the same device."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.communication.waiting import ALL_OPERATIONS
from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import NCCL, Run
from nsys2prv.analysis.interval_frames import covered_by, known_sum
from nsys2prv.intervals.grouped import Axis, axis_over
from nsys2prv.intervals.spans import Spans, time_in
from nsys2prv.model.schemas import to_schema

# Communication in NCCL kernels of a rank (ns): the time that they cover, and what of it is overlapped or exposed.
# `bytes`: null where no call tells them.
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
    axis = axis_over(window, len(run.devices))
    computing = covered_by(axis, work.filter(pl.col("kind").is_in(USEFUL_KINDS)), "device", window)
    by_class = pl.col("class").cast(pl.String).str.strip_prefix("NCCL ")
    operation = pl.coalesce(pl.col("operation").cast(pl.String), by_class)
    collectives = work.filter(pl.col("kind") == NCCL).with_columns(
        operation,
        pl.col("communicator").cast(pl.String),
        rank=run.rank_of("task"),
    )
    whole = collectives.with_columns(communicator=pl.lit(None, pl.String), operation=pl.lit(ALL_OPERATIONS))
    table = pl.concat([_overlapped(part, computing, axis, window) for part in (whole, collectives)])
    return table.sort(pl.col("operation") != ALL_OPERATIONS, "rank", "communicator", "operation", nulls_last=True)


def _overlapped(collectives: pl.DataFrame, computing: Spans, devices: Axis, window: Spans) -> pl.DataFrame:
    """Return OVERLAP by rank, communicator and operation. `computing`: on the axis of the devices."""
    by = ["rank", "communicator", "operation"]
    sums = collectives.group_by(by, maintain_order=True).agg(known_sum("bytes"), kernels=pl.len())
    numbered = sums.with_row_index("number")
    pairs = numbered.select("number", *by).join(collectives, on=by, nulls_equal=True)
    # Kernels of one group on several devices count on each.
    users = pairs.select("number", "device").unique(maintain_order=True).with_row_index("user")
    own = pairs.join(users, on=["number", "device"])
    axis = axis_over(window, users.height)
    communicating = covered_by(axis, own, "user", window)
    start, end = (
        devices.at(users["device"].to_numpy()[axis.group(times)], axis.time(times)) for times in communicating
    )
    beside = time_in(computing, end) - time_in(computing, start)
    number = users["number"].to_numpy()[axis.group(communicating.start)]
    spans = pl.DataFrame(
        {"number": number, "ns": end - start, "beside": beside}, schema_overrides={"number": pl.UInt32}
    )
    sums = spans.group_by("number").agg(communication_ns=pl.sum("ns"), overlapped_ns=pl.sum("beside"))
    timed = numbered.join(sums, on="number", how="left").with_columns(
        pl.col("communication_ns", "overlapped_ns").fill_null(0)
    )
    return to_schema(timed.with_columns(exposed_ns=pl.col("communication_ns") - pl.col("overlapped_ns")), OVERLAP)

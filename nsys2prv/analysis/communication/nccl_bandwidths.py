"""Bandwidths of NCCL by communicator and operation."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.frames import NCCL, Run
from nsys2prv.analysis.interval_frames import whole_with_ns
from nsys2prv.families.nccl.bandwidth import bandwidths
from nsys2prv.intervals.spans import Spans
from nsys2prv.model.event_types import NCCL_OPERATION
from nsys2prv.model.schemas import to_schema

# `bytes`: what the calls say; `ns`: time in the kernels, those that wait for other ranks too; bandwidths in GB/s (null:
# the number of ranks is not known, or kernels hold several operations): of all bytes over all time, and the median.
BANDWIDTH = {
    "rank": pl.Int64(),
    "communicator": pl.String(),
    "operation": pl.String(),
    "ranks": pl.Int64(),
    "kernels": pl.Int64(),
    "bytes": pl.Int64(),
    "ns": pl.Int64(),
    "algorithm_gb_s": pl.Float64(),
    "bus_gb_s": pl.Float64(),
    "bus_p50_gb_s": pl.Float64(),
}
_NUMBER = {name: n for n, name in NCCL_OPERATION.values.items()}


def nccl_bandwidths(run: Run, window: Spans) -> pl.DataFrame:
    """Return BANDWIDTH of the kernels that the window, and a chosen time, hold whole."""
    work = whole_with_ns(run.work.filter(pl.col("kind") == NCCL), window)
    whole = work.filter(pl.col("ns") == pl.col("whole_ns"))
    named = whole.drop_nulls(["communicator", "operation", "bytes"])
    known = named.select(
        run.rank_of("task").alias("rank"),
        pl.col("communicator", "operation").cast(pl.String),
        "bytes",
        "ns",
    ).with_columns(
        ranks=pl.col("communicator").replace_strict(run.communicator_sizes, default=0, return_dtype=pl.Int64)
    )
    single = _with_bandwidths(known)
    by = ["rank", "communicator", "operation", "ranks"]
    table = single.group_by(by).agg(
        kernels=pl.len(), bytes=pl.col("bytes").sum(), ns=pl.col("ns").sum(), bus_p50_gb_s=pl.col("bus_gb_s").median()
    )
    return to_schema(_with_bandwidths(table).sort(by), BANDWIDTH)


def _with_bandwidths(table: pl.DataFrame) -> pl.DataFrame:
    """Add the bandwidths of each row from its bytes and ns. Bytes a ns are GB/s."""
    rate = table["bytes"] / table["ns"]
    number = table["operation"].replace_strict(_NUMBER, default=None, return_dtype=pl.Int64)
    algorithm, bus = bandwidths(rate, number, table["ranks"].to_numpy())
    return table.with_columns(algorithm_gb_s=algorithm, bus_gb_s=bus)

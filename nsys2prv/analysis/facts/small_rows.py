"""Rows of small collectives that larger ones could replace, and what that saves."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.nccl_transfers import nccl_transfers
from nsys2prv.analysis.facts.thresholds import BESIDE_SMALL, LATENCY_BOUND, LATENCY_BYTES, LOW, SMALL_COLLECTIVES

# Messages have a partner each: what is sent to several of them is no larger message.
MESSAGES = ("Send", "Recv", "Send and Recv")
_KIND = ("communicator", "operation")
# Small collectives of a device with nothing else between them, that one may replace. `transfer_ns`, `exposed_ns`: of
# all of them; `merged_ns`: one latency, and their bytes at the highest rate of the communicator and operation.
ROW = {
    "device": pl.Int64(),
    "communicator": pl.String(),
    "operation": pl.String(),
    "at": pl.Int64(),
    "count": pl.Int64(),
    "bytes": pl.Int64(),
    "transfer_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
    "merged_ns": pl.Float64(),
}


def saved_by_merging(case: Case) -> float:
    """Return the time (ns of an iteration) that merging small collectives gains, 0 if that is little.

    It is that of a device, the mean, and no more than an ideal network gains: hidden transfers cost nothing.
    """
    return gain_of_merging(case, gaining(rows_of_small(case)))


def rows_of_small(case: Case) -> pl.DataFrame:
    """Return ROW of the collectives that the window holds whole, and whose bytes and partners are known."""
    collectives = _collectives(case)
    # How long transfers of each size usually take: the fastest size gives the rate of what is merged.
    sizes = collectives.group_by(*_KIND, "bytes").agg(usual=pl.col("transfer_ns").median())
    size = pl.col("bytes").clip(lower_bound=round(LATENCY_BYTES.value))
    rated = sizes.with_columns(best=(size / pl.col("usual")).max().over(_KIND))
    small = rated.filter(LATENCY_BOUND.value * pl.col("bytes") <= pl.col("best") * pl.col("usual"))
    of_small = collectives.join(small.select(*_KIND, "bytes", "best"), on=[*_KIND, "bytes"])
    rows = of_small.group_by("device", *_KIND, "number").agg(
        pl.col("bytes", "transfer_ns", "exposed_ns").sum(),
        at=pl.col("start").min(),
        count=pl.len(),
        merged_ns=pl.col("transfer_ns").mean() + (pl.col("bytes") / pl.col("best")).sum(),
    )
    return rows.filter(pl.col("count") > 1).select(pl.col(c).cast(t) for c, t in ROW.items()).sort("at", "device")


def gain_of_merging(case: Case, rows: pl.DataFrame) -> float:
    """Return what merging `rows` (ROW) gains (ns of an iteration), 0 if that is little or the collectives are few."""
    if of_device(case, rows, pl.col("count")) < SMALL_COLLECTIVES.value:
        return 0.0
    gain = min(of_device(case, rows, saved()), case.gain("transfer=0"))
    return gain if gain >= LOW.value * case.iteration_ns else 0.0


def of_device(case: Case, rows: pl.DataFrame, what: pl.Expr) -> float:
    """Return a sum over ROW as that of a device in an iteration, the mean."""
    return case.of_device(float(rows.select(what.sum()).item()))


def saved() -> pl.Expr:
    """Return the time that merging a row of ROW saves (ns); below 0 if that takes longer."""
    return pl.col("exposed_ns") - pl.col("merged_ns")


def gaining(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows (ROW) that take less time if merged."""
    return rows.filter(saved() > 0)


def _collectives(case: Case) -> pl.DataFrame:
    """Return TRANSFER of collectives whose bytes and partners are known, with the `number` of the row of each.

    A collective goes on with a row if it is of the communicator and the operation of the one before on its device, was
    launched before that ended, so that no host waited for its result, and if hardly anything computed between them.
    """
    alike = pl.all_horizontal(pl.col(c) == pl.col(c).shift(1) for c in ("device", *_KIND))
    queued = pl.col("launched") < pl.col("end").shift(1)
    goes_on = alike & queued & (pl.col("between_ns") <= BESIDE_SMALL.value * pl.col("transfer_ns"))
    return (
        nccl_transfers(case)
        .with_columns(number=(~goes_on.fill_null(False)).cum_sum())
        .filter(
            pl.all_horizontal(pl.col("bytes", "communicator", "last").is_not_null()),
            ~pl.col("operation").is_in(MESSAGES),
        )
    )

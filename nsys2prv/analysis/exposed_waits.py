"""Exposed waiting and transfer: time in communication while the devices of a rank compute nothing."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.computed import computed_until
from nsys2prv.analysis.frames import Run
from nsys2prv.intervals.spans import Spans, time_in

# Time inside the window (ns) of NCCL kernels and MPI calls, each by itself. `kind`: nccl or mpi; `waited_for`: the rank
# that came last (null: none). `waits_at`, `transfers_at`: begin of the longest exposed wait and transfer.
EXPOSED = {
    "rank": pl.Int64(),
    "waited_for": pl.Int64(),
    "kind": pl.String(),
    "operation": pl.String(),
    "activities": pl.Int64(),
    "bytes": pl.Int64(),
    "waiting_ns": pl.Int64(),
    "exposed_waiting_ns": pl.Int64(),
    "transfer_ns": pl.Int64(),
    "exposed_transfer_ns": pl.Int64(),
    "waits_at": pl.Int64(),
    "transfers_at": pl.Int64(),
}


def exposed_waits(run: Run, found: pl.DataFrame, window: Spans) -> pl.DataFrame:
    """Return EXPOSED by rank, rank waited for, kind and operation. `found`: EXCHANGE."""
    times = ("start", "ready", "end")
    computed = zip(times, computed_until(run, found, window, times), strict=True)
    timed = found.with_columns(
        *(pl.Series(f"in_{c}", time_in(window, found[c].to_numpy())) for c in times),
        *(pl.Series(f"computed_{c}", until) for c, until in computed),
    )
    waiting, transfer = _length("in", "start", "ready"), _length("in", "ready", "end")
    parts = timed.with_columns(
        waiting_ns=waiting,
        transfer_ns=transfer,
        exposed_waiting_ns=waiting - _length("computed", "start", "ready"),
        exposed_transfer_ns=transfer - _length("computed", "ready", "end"),
        **{
            name: pl.col(column).replace_strict(run.ranks, default=None, return_dtype=pl.Int64)
            for name, column in (("rank", "task"), ("waited_for", "waited_for"))
        },
    ).filter(pl.col("waiting_ns") + pl.col("transfer_ns") > 0)
    sums = [pl.col(c).sum() for c in EXPOSED if c == "bytes" or c.endswith("_ns")]
    by_pair = parts.group_by("rank", "waited_for", pl.col("kind").cast(pl.String), "operation").agg(
        pl.len().alias("activities"),
        *sums,
        waits_at=pl.col("start").sort_by("exposed_waiting_ns").last(),
        transfers_at=pl.col("ready").sort_by("exposed_transfer_ns").last(),
    )
    return by_pair.select(pl.col(c).cast(t) for c, t in EXPOSED.items()).sort(
        "rank", "waited_for", "kind", "operation", nulls_last=True
    )


def _length(what: str, low: str, high: str) -> pl.Expr:
    return pl.col(f"{what}_{high}") - pl.col(f"{what}_{low}")

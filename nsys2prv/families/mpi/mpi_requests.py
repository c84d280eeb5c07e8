"""Requests of MPI's nonblocking calls: which later call completes each, and when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from nsys2prv.model.global_ids import process_of

WAITS = r"(?i)^MPI_(wait|test)"
STARTS = r"(?i)^MPI_Start"
PENDING = r"(?i)^MPI_(I|.*_init$)"


def pending() -> pl.Expr:
    """Return True for the calls that leave a request behind."""
    return pl.col("text").str.contains(PENDING) & pl.col("requestHandle").is_not_null()


def request_uses(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the times at which requests begin (`used`), with process and handle (`request`), in order of time."""
    process = process_of(pl.col("globalTid")).alias("process")
    return pl.concat(t.select(process, request="requestHandle", used="start") for t in tables).drop_nulls().sort("used")


def completed(rows: pl.DataFrame, waits: pl.DataFrame, uses: pl.DataFrame) -> pl.DataFrame:
    """Add begin and end of the call that completes each request (`waited`, `completed`), and its thread (`waiter`).

    `rows`: calls, with `is_pending` (true if a later call completes them); `waits`: starts, waits and tests; `uses`:
    see request_uses. Request handles are used again: the last wait or test before the next use of the handle completes
    the request. The new columns are null for rows that no later call completes, or whose later call is not recorded.
    """
    process = process_of(pl.col("globalTid")).alias("process")
    handle = ["process", "request"]
    started = rows.with_columns(
        process, request=pl.when(pending()).then("requestHandle"), after=pl.col("start") + 1
    ).sort("start", maintain_order=True)
    following = started.join_asof(
        uses, left_on="after", right_on="used", by=handle, strategy="forward", check_sortedness=False
    )
    done = (
        waits.filter(pl.col("text").str.contains(WAITS))
        .select(process, waited="start", completed="end", waiter="globalTid", request="requestHandle")
        .drop_nulls()
        .sort("waited", "completed")
    )
    until = pl.when(pl.col("is_pending")).then(pl.col("used").fill_null(np.iinfo(np.int64).max) - 1).otherwise(0)
    with_until = following.with_columns(until=until).sort("until", maintain_order=True)
    joined = with_until.join_asof(done, left_on="until", right_on="waited", by=handle, check_sortedness=False)
    own = pl.col("is_pending") & (pl.col("waited") >= pl.col("start"))
    return joined.with_columns(pl.when(own).then(c).alias(c) for c in ("waited", "completed", "waiter"))

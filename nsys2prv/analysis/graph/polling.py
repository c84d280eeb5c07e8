"""Host threads that wait for their device by polling: they ask again and again whether it is done."""

from __future__ import annotations

import polars as pl

# Calls that ask whether device work is done, and return at once.
QUERIES = (
    "cudaEventQuery",
    "cudaStreamQuery",
    "cudaStreamQuery_ptsz",
    "cuEventQuery",
    "cuStreamQuery",
    "cuStreamQuery_ptsz",
)
# Calls between queries that ask for nothing of the device: PyTorch resets the error of a query that was too early.
BESIDE = ("cudaGetLastError", "cudaPeekAtLastError")
# The longest time between two queries of a series (ns). A loop asks every 1 to 2 us, with a short sleep every 50 to 100
# us; a thread that sleeps longer, such as NCCL's watchdog (100 ms), looks now and then and waits for nothing.
LONGEST_GAP = 100_000
# The fewest queries of a series. PyTorch's caching allocator asks for up to ten events in a row between launches, and
# for twenty where it clears a queue. So many queries of a loop take some 40 us: a shorter wait hardly matters.
FEWEST_QUERIES = 24


def polls(calls: pl.DataFrame) -> pl.DataFrame:
    """Return a row (CALLS) for each series of polling, from the begin of its first query to the end of its last.

    A series is queries of one thread without other CUDA calls between, but for BESIDE. Its name is that of its first
    query.
    """
    is_cuda = (pl.col("kind") == "cuda") & ~pl.col("name").is_in(BESIDE)
    # Other calls are many, and only end a series: a thread without one among its queries alone has none.
    may_poll = _series(calls.filter(is_cuda, _asks()))["row"].unique()
    return _series(calls.filter(is_cuda, pl.col("row").is_in(may_poll.implode()))).select(calls.columns)


def _series(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the series of enough queries among CUDA calls (CALLS), with short gaps and no other calls between."""
    # Two sorts by one column each are several times faster than one by both.
    own = calls.sort("start").sort("row", maintain_order=True).with_columns(asks=_asks())
    goes_on = pl.col("asks") & pl.col("asks").shift(1) & (pl.col("row") == pl.col("row").shift(1))
    goes_on &= pl.col("start") - pl.col("end").shift(1) <= LONGEST_GAP
    asked = own.with_columns(begins=~goes_on.fill_null(False)).filter("asks").with_row_index("at")
    first = asked.filter("begins").with_columns(until=pl.col("at").shift(-1, fill_value=asked.height))
    series = first.with_columns(end=asked["end"].gather(first["until"] - 1))
    return series.filter(pl.col("until") - pl.col("at") >= FEWEST_QUERIES)


def outside(rows: pl.DataFrame, series: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a frame (row, start) that begin in none of the series (of `polls`).

    CUPTI has a record of synchronization for each query, too.
    """
    if series.is_empty():
        return rows
    spans = series.select("row", "start", until="end").sort("start")
    found = rows.sort("start").join_asof(spans, on="start", by="row", strategy="backward", check_sortedness=False)
    return found.filter((pl.col("start") > pl.col("until")).fill_null(True)).drop("until")


def _asks() -> pl.Expr:
    """Return True for the CUDA calls (CALLS) that are queries."""
    return pl.col("name").is_in(QUERIES)

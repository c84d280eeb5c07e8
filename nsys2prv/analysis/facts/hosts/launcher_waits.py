"""Waits for devices of the threads that launch kernels: calls that wait, and copies to the host that block."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.frames import COPY, Run
from nsys2prv.analysis.graph.blocking_calls import blocking_reads
from nsys2prv.analysis.text_columns import text_contains


@once
def waits_of_launchers(case: Case) -> pl.DataFrame:
    """Return task, row, start and end of waits for devices of threads that launch kernels; `call`: the call of CUDA.

    Waits for events do not count: timers ask for events that have happened, as those of PyTorch's DDP do. A copy to the
    host that blocks counts where its thread launches on without a wait: else that wait follows for the same value. It
    does not count after a wait for all kernels that are launched before it. `call` is null where no call was recorded.
    """
    columns = ("task", "row", "start", "end", "call")
    waits = _with_calls(case.run, case.device_waits.filter(~text_contains("name", "^Event")))
    reads = _not_ready(_not_followed(blocking_reads(case.run), waits, case.run), waits, case.run)
    every = pl.concat([waits.select(columns), reads.select(columns)])
    return every.join(launching_threads(case), on=["task", "row"], how="semi")


def _with_calls(run: Run, waits: pl.DataFrame) -> pl.DataFrame:
    """Return waits (CALLS) with `call`: the name of the call of CUDA in which each begins, null without one.

    Of calls that begin at once it is the longest, which has the others within.
    """
    calls = run.calls.filter(pl.col("kind") == "cuda").select("row", "start", until="end", call="name")
    ordered = calls.sort("start", "until", "call")
    called = waits.sort("start").join_asof(ordered, on="start", by="row", check_sortedness=False)
    return called.with_columns(call=pl.when(pl.col("until") > pl.col("start")).then("call"))


def _not_followed(reads: pl.DataFrame, waits: pl.DataFrame, run: Run) -> pl.DataFrame:
    """Return the reads (row, start) after which no wait (row, start) of their thread begins before it launches on."""
    launches = run.work.select(row="caller_row", start="launched").drop_nulls()
    known = _with_next(_with_next(reads, "wait", waits), "launch", launches)
    return known.filter(pl.col("wait").is_null() | (pl.col("wait") >= pl.col("launch"))).select(reads.columns)


def _not_ready(reads: pl.DataFrame, waits: pl.DataFrame, run: Run) -> pl.DataFrame:
    """Return the reads (task, row, start) before which a kernel is launched later than the last wait of their thread.

    Kernels of all threads of the process count: what one launches another reads. `waits`: row, start, end.
    """
    kernels = run.work.filter(pl.col("kind") != COPY).select("task", launch="launched").drop_nulls().sort("launch")
    ended = waits.select("row", wait="start", done="end").sort("done")
    known = reads.sort("start").join_asof(
        ended, left_on="start", right_on="done", by="row", strategy="backward", check_sortedness=False
    )
    known = known.sort("start").join_asof(
        kernels, left_on="start", right_on="launch", by="task", strategy="backward", check_sortedness=False
    )
    later = pl.col("wait").is_null() | (pl.col("launch") >= pl.col("wait"))
    return known.filter(later).select(reads.columns)


def _with_next(reads: pl.DataFrame, name: str, calls: pl.DataFrame) -> pl.DataFrame:
    """Return reads (row, start) with `name`: when the next of some calls (row, start) of their thread begins."""
    return reads.sort("start").join_asof(
        calls.select("row", pl.col("start").alias(name)).sort(name),
        left_on="start",
        right_on=name,
        by="row",
        strategy="forward",
        allow_exact_matches=False,
        check_sortedness=False,
    )


@once
def launching_threads(case: Case) -> pl.DataFrame:
    """Return task and row of the threads that launch kernels."""
    kernels = case.run.work.filter(pl.col("kind") != COPY, pl.col("caller_row").is_not_null())
    return kernels.select("task", row="caller_row").unique()

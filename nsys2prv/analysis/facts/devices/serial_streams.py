"""Kernels of several streams, or threads, that could run side by side, and run one after another."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import HELD_BACK, MOST_HELD_BACK
from nsys2prv.analysis.frames import Run
from nsys2prv.model.stream_kinds import StreamKind

# The legacy default stream waits for all streams that are not made as non-blocking, and these for it (CUDA programming
# guide, default stream).
ORDERED = Words(
    general="make streams with cudaStreamNonBlocking, or launch nothing on the default stream",
    cupy="make streams with cupy.cuda.Stream(non_blocking=True), or launch nothing on the default stream",
    cuda="make streams with cudaStreamNonBlocking, compile with --default-stream per-thread, or launch nothing on the "
    "default stream",
)
# Threads of a program use one default stream, unless it is compiled for one of each (CUDA runtime API, stream
# synchronization behavior).
OF_ITS_OWN = Words(
    general="a stream of its own",
    pytorch="a stream of its own (`with torch.cuda.stream(torch.cuda.Stream()):`)",
    cupy="a stream of its own (`with cupy.cuda.Stream(non_blocking=True):`)",
    cuda="a stream of its own (cudaStreamCreateWithFlags with cudaStreamNonBlocking, or compile with --default-stream "
    "per-thread), and wait for that (cudaStreamSynchronize)",
)


def advice_on_streams(case: Case, alone: pl.DataFrame) -> str:
    """Return advice on kernels of several streams or threads if most of their time is held back; else an empty text.

    `alone`: kernels beside which no other one runs, by `work`, their row of Run.work, with `ns`.
    """
    kernels = _in_order(case.run, alone)
    held_back, most = kernels.filter(_is_held_back()), MOST_HELD_BACK.value * int(kernels["ns"].sum())
    if int(held_back["ns"].sum()) < most:
        behind = kernels.filter(_is_behind_another_thread())
        return "" if int(behind["ns"].sum()) < most else _of_threads(case, behind)
    streams = max(kernels.group_by("task", "device").agg(pl.col("row").n_unique())["row"])
    several = f"They are launched on {streams} streams, but run one after another"
    by_default = _by_default_stream(case.run, held_back)
    if by_default is None:
        return (
            f"{several}. If they are independent, see what orders them: events, or work on the default stream, for "
            f"which other streams wait, and which waits for them ({ORDERED.of(case.framework)})."
        )
    if by_default < MOST_HELD_BACK.value:
        return f"{several}. If they are independent, see what orders them, such as events: the default stream does not."
    return (
        f"{several}, as work on the default stream lies between: it waits for these streams, and they for it. If they "
        f"are independent, {ORDERED.of(case.framework)}."
    )


def _in_order(run: Run, alone: pl.DataFrame) -> pl.DataFrame:
    """Return kernels in order of device and start, with columns of WORK.

    `own_before`: when their stream was done before (ns), and `thread_before`: the row of the thread that launched what
    it did, if that is one of these kernels (else null); `ended`, `row_before`, `launched_before`: of the kernel before
    on their process and device.
    """
    one_of_these = pl.int_range(pl.len()).is_in(alone["work"].implode())
    of_stream = {"own_before": pl.col("end"), "thread_before": pl.when(one_of_these).then("caller_row")}
    before_it = run.work.select(**{c: of.shift(1).over("row", order_by="start") for c, of in of_stream.items()})
    columns = ["task", "device", "row", "start", "end", "launched", "caller_row"]
    kernels = alone.select("work", "ns").with_columns(run.work[c].gather(alone["work"]) for c in columns)
    kernels = kernels.hstack(before_it[alone["work"]]).sort("task", "device", "start")
    before = {"ended": "end", "row_before": "row", "launched_before": "launched"}
    return kernels.with_columns(**{c: pl.col(of).shift(1).over("task", "device") for c, of in before.items()})


def _is_held_back() -> pl.Expr:
    """Return True for a kernel of _in_order that could have run beside the kernel before.

    It had been launched long before that kernel of another stream ended, its own stream had nothing to do, and only
    short work ran between the two: such as that of the default stream.
    """
    could_begin = pl.max_horizontal("launched", pl.col("own_before").fill_null(0))
    at_once = pl.col("start") - pl.col("ended") <= HELD_BACK.value
    held = (pl.col("row_before") != pl.col("row")) & (pl.col("ended") > could_begin + HELD_BACK.value) & at_once
    return held.fill_null(False)


def _is_behind_another_thread() -> pl.Expr:
    """Return True for a kernel of _in_order that had to wait for one that another thread launched on its stream."""
    waited = pl.col("own_before") > pl.col("launched") + HELD_BACK.value
    return (waited & (pl.col("thread_before") != pl.col("caller_row"))).fill_null(False)


def _of_threads(case: Case, behind: pl.DataFrame) -> str:
    """Return advice on kernels (of _in_order) that wait on their stream for those of other threads.

    The number of threads is that of the stream with most.
    """
    both = pl.concat(behind.select("row", thread=c) for c in ("caller_row", "thread_before"))
    threads = max(both.group_by("row").agg(pl.col("thread").n_unique())["thread"])
    return (
        f"{threads} threads launch them on one stream, where each waits for those of the others. If they are "
        f"independent, give each thread {OF_ITS_OWN.of(case.framework)}."
    )


def _by_default_stream(run: Run, held_back: pl.DataFrame) -> float | None:
    """Return the share of the time of kernels that the default stream holds back; None if that is not known.

    It does if the kernel and the one before are of streams of one context that wait for it, and it got work between the
    launches of the two, or is the stream of one of them.
    """
    kinds = run.stream_kinds
    both = held_back.join(kinds, on="row", how="left").join(
        kinds.select(row_before="row", context_before="context", kind_before="kind"), on="row_before", how="left"
    )
    needed = ("kind", "kind_before", "launched", "launched_before")
    if any(both[c].has_nulls() for c in needed):
        return None
    null = kinds.filter(pl.col("kind") == StreamKind.NULL)
    of_null = run.work.join(null, on="row").select("context", "launched", launched_null="launched").sort("launched")
    found = both.sort("launched").join_asof(
        of_null, on="launched", by="context", strategy="backward", check_sortedness=False
    )
    waits = pl.all_horizontal(pl.col("kind", "kind_before") != StreamKind.NON_BLOCKING)
    is_null = pl.any_horizontal(pl.col("kind", "kind_before") == StreamKind.NULL)
    between = pl.col("launched_null") >= pl.col("launched_before")
    ordered = waits & (pl.col("context") == pl.col("context_before")) & (is_null | between)
    return int(found.filter(ordered.fill_null(False))["ns"].sum()) / max(int(found["ns"].sum()), 1)

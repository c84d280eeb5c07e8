"""Kernels of several streams that could run side by side, and run one after another."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import HELD_BACK, MOST_HELD_BACK

# The legacy default stream waits for all streams that are not made as non-blocking, and these for it (CUDA programming
# guide, default stream).
ORDERED = Words(
    general="make streams with cudaStreamNonBlocking, or launch nothing on the default stream",
    cupy="make streams with cupy.cuda.Stream(non_blocking=True), or launch nothing on the default stream",
    cuda="make streams with cudaStreamNonBlocking, compile with --default-stream per-thread, or launch nothing on the "
    "default stream",
)


def advice_on_streams(case: Case, alone: pl.DataFrame) -> str:
    """Return advice on kernels of several streams if most of their time is held back; else an empty text.

    `alone`: kernels beside which no other one runs, by `work`, their row of Run.work, with `ns`. A kernel is held back
    if it had been launched long before a kernel of another stream of its process and device ended, its own stream had
    nothing to do, and only short work ran between the two: such as that of the default stream.
    """
    work = case.run.work
    own_before = work.select(pl.col("end").shift(1).over("row", order_by="start"))["end"]
    columns = ["task", "device", "row", "start", "end", "launched"]
    kernels = alone.select("work", "ns").with_columns(work[c].gather(alone["work"]) for c in columns)
    kernels = kernels.with_columns(own_before=own_before.gather(alone["work"])).sort("task", "device", "start")
    ended, row = (pl.col(c).shift(1).over("task", "device") for c in ("end", "row"))
    could_begin = pl.max_horizontal("launched", pl.col("own_before").fill_null(0))
    at_once = pl.col("start") - ended <= HELD_BACK.value
    held = (row != pl.col("row")) & (ended > could_begin + HELD_BACK.value) & at_once
    held_back = kernels.filter(held.fill_null(False))
    if int(held_back["ns"].sum()) < MOST_HELD_BACK.value * int(kernels["ns"].sum()):
        return ""
    streams = max(kernels.group_by("task", "device").agg(pl.col("row").n_unique())["row"])
    return (
        f"They are launched on {streams} streams, but run one after another. If they are independent, see what orders "
        "them: events, or work on the default stream, for which other streams wait, and which waits for them "
        f"({ORDERED.of(case.framework)})."
    )

"""Waits for values of the device in which the host blocks in a call of the system, and not in one of CUDA.

XLA copies a value to the host, and a host function behind the copy wakes the thread that reads it (float(x) of JAX):
no call of CUDA and no record of synchronization says that the thread waits for the device.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.facts.thresholds import HANDOVER, RECURS, VALUE_BYTES
from nsys2prv.analysis.frames import CALLS, COPY, TO_HOST, Run
from nsys2prv.analysis.interval_frames import whole_with_ns
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.model.schemas import to_schema


def value_waits(analysis: Analysis) -> pl.DataFrame:
    """Return the OS calls (CALLS) in which main threads wait for values; none unless they do in half of iterations."""
    found, iterations = _waits(analysis.run, analysis.explanation.device_waits), len(analysis.window.iterations)
    if not iterations:
        return found.clear()
    counts = whole_with_ns(found, analysis.window.spans).group_by("task").len()["len"].to_list()
    return found if max(counts, default=0) >= RECURS.value * iterations else found.clear()


def _waits(run: Run, device_waits: pl.DataFrame) -> pl.DataFrame:
    """Return the OS calls (CALLS) of main threads that begin before a copy of a value is launched, and end after it.

    They end within HANDOVER of the copy, and before the process launches anything else: whatever launches then waits
    for the main thread. The main thread is the first one with calls. Where a thread of the process waits for the copy
    in a call of CUDA, the main one waits for that thread, as in a backward pass of PyTorch.
    """
    calls = run.calls.join(run.calls.group_by("task").agg(pl.col("row").min()), on=["task", "row"], how="semi")
    calls = calls.filter(pl.col("kind") == "os").sort("end")
    small = (pl.col("kind") == COPY) & (pl.col("bytes") <= VALUE_BYTES.value)
    copies = run.work.filter(small, text_contains("name", TO_HOST))
    reads = copies.select("task", read="end", asked="launched").drop_nulls().sort("read")
    launches = run.work.select("task", next="launched").drop_nulls().sort("next")
    known = calls.join_asof(
        reads, left_on="end", right_on="read", by="task", strategy="backward", check_sortedness=False
    ).filter(pl.col("asked") >= pl.col("start"), pl.col("end") - pl.col("read") <= HANDOVER.value)
    followed = known.sort("read").join_asof(
        launches, left_on="read", right_on="next", by="task", strategy="forward", check_sortedness=False
    )
    begins = device_waits.select("task", waits="start").sort("waits")
    followed = followed.sort("asked").join_asof(
        begins, left_on="asked", right_on="waits", by="task", strategy="forward", check_sortedness=False
    )
    after = (pl.col(c) >= pl.col("end") for c in ("next", "waits"))
    waits = followed.filter(pl.all_horizontal(each.fill_null(True) for each in after))
    return to_schema(waits, CALLS).sort("start")

"""Launches that wait for room in the queue of their device, as the host is far ahead of it."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.edges import LEAST_SILENCE_NS
from nsys2prv.analysis.frames import Run
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import one_span

# The driver holds some 1,024 launches, those of events and waits among them; reports show 790 to 1,080 activities.
FULL_QUEUE = 500
# A launch goes on so soon after the activity that makes room has ended: 4 to 18 us on real reports (ns).
LONGEST_LAG = 100_000


def launches_into_full_queues(run: Run) -> pl.DataFrame:
    """Return the CUDA calls that launch, and wait for room: task, row, start and end (ns), and `work`.

    `work` is the index in Run.work of the activity whose end makes room. While such a call waits, its device has
    FULL_QUEUE launched activities or more that have not ended.
    """
    calls = run.calls.filter(pl.col("kind") == "cuda", pl.col("end") - pl.col("start") >= LEAST_SILENCE_NS)
    launched = run.work.select("device", row="caller_row", start="launched").filter(pl.col("row") >= 0)
    long = calls.select("task", "row", "start", "end").join(launched, on=["row", "start"]).unique(["row", "start"])
    nothing = long.select("task", "row", "start", "end").clear().with_columns(work=pl.lit(None, pl.Int64))
    if long.is_empty():
        return nothing
    work = run.work.select("device", "end", launched=pl.coalesce("launched", "start"))
    device, begun, ended = (work[c].to_numpy() for c in ("device", "launched", "end"))
    whole = one_span(int(min(begun.min(), long["start"].min())), int(max(ended.max(), long["end"].max())))
    axis = axis_over(whole, int(device.max()) + 1)
    launches, ends = np.sort(axis.at(device, begun)), axis.at(device, ended)
    order = np.argsort(ends)
    ends = ends[order]
    own = long["device"].to_numpy()
    start, until = (axis.at(own, long[c].to_numpy()) for c in ("start", "end"))
    # Each activity is launched and ends once, so that those of other devices cancel out.
    pending = [np.searchsorted(launches, at, side="right") - np.searchsorted(ends, at) for at in (start, until)]
    last = np.maximum(np.searchsorted(ends, until, side="right") - 1, 0)
    made_room = (ends[last] > start) & (until - ends[last] <= LONGEST_LAG)
    full = np.minimum(*pending) >= FULL_QUEUE
    found = long.select("task", "row", "start", "end").with_columns(work=pl.Series(order[last], dtype=pl.Int64))
    return found.filter(pl.Series(full & made_room)).sort("row", "start")

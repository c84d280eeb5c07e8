"""Launches that wait for room in the queue of their device, as the host is far ahead of it."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.graph.edges import LEAST_SILENCE_NS
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import one_span

# The driver holds some 1,024 launches, those of events and waits among them; reports show 790 to 1,080 of work.
FULL_QUEUE = 500
# A launch goes on so soon after the activity that makes room has ended: 4 to 18 us on real reports (ns).
LONGEST_ROOM_LAG_NS = 100_000


def launches_into_full_queues(run: Run) -> pl.DataFrame:
    """Return the CUDA calls that launch, and wait for room: task, row, start and end (ns), and `work`.

    `work` is the index in Run.work of the activity whose end makes room. While such a call waits, at least FULL_QUEUE
    launches for its device have not ended.
    """
    calls = run.calls.filter(pl.col("kind") == "cuda", pl.col("end") - pl.col("start") >= LEAST_SILENCE_NS)
    launched = run.work.select("device", row="caller_row", start="launched").drop_nulls("row")
    long = calls.select("task", "row", "start", "end").join(launched, on=["row", "start"])
    long = long.sort("row", "start", "device").unique(["row", "start"], keep="first", maintain_order=True)
    if long.is_empty():
        return long.select("task", "row", "start", "end", work=pl.lit(None, pl.Int64))
    queued = _queued(run)
    own, device = long["device"].to_numpy(), queued["device"].to_numpy()
    times = [
        frame[c].to_numpy() for frame, c in ((queued, "launched"), (queued, "end"), (long, "start"), (long, "end"))
    ]
    whole = one_span(min(int(t.min()) for t in times), max(int(t.max()) for t in times))
    axis = axis_over(whole, int(device.max()) + 1)
    begun, ended, start, until = (axis.at(who, t) for who, t in zip((device, device, own, own), times, strict=True))
    begun = np.sort(begun)
    # Each launch begins and ends once, so that those of other devices cancel out.
    pending = [np.searchsorted(begun, at, side="right") - np.searchsorted(ended, at) for at in (start, until)]
    last = np.maximum(np.searchsorted(ended, until, side="right") - 1, 0)
    made_room = (ended[last] > start) & (until - ended[last] <= LONGEST_ROOM_LAG_NS)
    full = np.minimum(*pending) >= FULL_QUEUE
    found = long.select("task", "row", "start", "end", work=queued["work"].cast(pl.Int64).gather(last))
    return found.filter(pl.Series(full & made_room))


def _queued(run: Run) -> pl.DataFrame:
    """Return what waits in the queue of each device: `launched`, `end` (ns) and `work` of each launch, in order of end.

    A launch of a graph has one place in the queue, until the last one of its activities (`work`) has ended.
    """
    work = run.work.select("device", "caller_row", "launched", "end").with_row_index("work").drop_nulls("launched")
    last_of_each = pl.col("work").get(pl.col("end").arg_max())
    queued = work.group_by("device", "caller_row", "launched").agg(last_of_each, pl.col("end").max())
    return queued.sort("device", "end", "work")

"""The longest idle times of each device, and the calls of its ranks' host threads meanwhile."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import Run, covered, inside, parts_by
from nsys2prv.analysis.host import STREAM_WAIT, main_row
from nsys2prv.analysis.phases import main_ranges
from nsys2prv.intervals.spans import Spans, difference

# `call` is the host call that overlaps most with the gap (OS calls: of the main thread), `call_ns` by how much;
# `range` the innermost NVTX range of the rank's main thread that was open when the gap began.
GAPS = {
    "rank": pl.Int64(),
    "host": pl.String(),
    "gpu": pl.Int64(),
    "start_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    "kind": pl.String(),
    "call": pl.String(),
    "call_ns": pl.Int64(),
    "range": pl.String(),
}


def gaps(run: Run, work: pl.DataFrame, window: Spans, count: int) -> pl.DataFrame:
    """Return GAPS: the `count` longest of each device inside the window, longest first."""
    by_device = parts_by(work, "device")
    calls = {task: _telling(own) for task, own in parts_by(run.calls, "task").items()}
    ranges = parts_by(main_ranges(run), "task")
    task_of = {task.rank: n for n, task in enumerate(run.tasks)}
    rows: list[tuple[object, ...]] = []
    for number, device in enumerate(run.devices):
        idle = difference(window, covered(by_device.get(number, work.clear())))
        longest = np.argsort(idle.start - idle.end, kind="stable")[:count]
        task = task_of[device.rank]
        for low, high in zip(idle.start[longest].tolist(), idle.end[longest].tolist(), strict=True):
            kind, call, lasted = _busiest(calls.get(task, run.calls.clear()), low, high)
            name = _open_range(ranges.get(task, run.ranges.clear()), low)
            rows.append((device.rank, device.host, device.gpu, low, high - low, kind, call, lasted, name))
    table = pl.DataFrame(rows, schema=GAPS, orient="row")
    return table.sort("rank", "host", "gpu", "idle_ns", "start_ns", descending=[False, False, False, True, False])


def _telling(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of a rank that may keep a device waiting. Helper threads mostly sleep in OS calls."""
    return calls.filter(
        pl.col("name") != STREAM_WAIT,
        (pl.col("kind") != "os") | (pl.col("row") == main_row(calls)),
    )


def _busiest(calls: pl.DataFrame, low: int, high: int) -> tuple[str | None, str | None, int]:
    """Return kind, name and time of the calls that fill most of a span. Calls of several threads at once count once.

    A synchronization counts before the call that it is in.
    """
    same = ["kind", "name"]
    # In order of start, a call adds the time behind the latest end of the calls before it.
    before = pl.col("end").cum_max().shift(1).over(same).fill_null(low)
    added = (pl.col("end") - pl.max_horizontal("start", before)).clip(lower_bound=0)
    sums = (
        inside(calls, low, high)
        .sort("start")
        .with_columns(added=added)
        .group_by(same)
        .agg(total=pl.col("added").sum())
        .with_columns(order=pl.col("kind").replace_strict({"mpi": 0, "synchronization": 1, "cuda": 2}, default=3))
        .sort("total", "order", "name", descending=[True, False, False])
    )
    if sums.is_empty():
        return None, None, 0
    kind, name, total = sums.select("kind", "name", "total").row(0)
    return kind, name, int(total)


def _open_range(ranges: pl.DataFrame, time: int) -> str | None:
    open_then = ranges.filter((pl.col("start") <= time) & (pl.col("end") > time))
    return None if open_then.is_empty() else str(open_then.sort("start", "end", descending=[True, False])["text"][0])

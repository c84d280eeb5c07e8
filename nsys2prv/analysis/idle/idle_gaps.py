"""The longest idle times of each device, the activities around them, and the calls of host threads meanwhile."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import MPI, NO_DEVICE, Run, devices_of, tasks_of_devices
from nsys2prv.analysis.graph.device_waits import STREAM_WAIT
from nsys2prv.analysis.host import main_rows
from nsys2prv.analysis.interval_frames import covered, covered_by, covered_time, whole_with_ns
from nsys2prv.intervals.grouped import Axis, axis_over
from nsys2prv.intervals.spans import Indices, Spans, Times, difference, first_of_equals, one_span, overlapping
from nsys2prv.model.schemas import to_schema

# `after` and `before`: the activities of the device around the gap (null: none); `call` is the host call that overlaps
# most with the gap (OS calls: of the main thread), `call_ns` by how much; `range` the NVTX range that is the
# innermost one of the main thread for the longest part of the gap (null: none is open then).
IDLE_GAPS = {
    "rank": pl.Int64(),
    "host": pl.String(),
    "gpu": pl.Int64(),
    "start_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    "after": pl.String(),
    "before": pl.String(),
    "kind": pl.String(),
    "call": pl.String(),
    "call_ns": pl.Int64(),
    "range": pl.String(),
}


def longest_gaps(run: Run, main: pl.DataFrame, work: pl.DataFrame, window: Spans, count: int) -> pl.DataFrame:
    """Return IDLE_GAPS: the `count` longest of each device inside the window, longest first.

    `main`: ranges of the main threads; `work`: WORK.
    """
    axis = axis_over(window, len(run.devices))
    idle = difference(axis.spread(window), covered_by(axis, work, "device"))
    device, length = axis.group(idle.start), idle.end - idle.start
    order = np.lexsort((-length, device))
    longest = order[_nth_in_group(device[order]) < count]
    placed = (
        pl.DataFrame({"device": device[longest], "start": axis.time(idle.start[longest]), "idle_ns": length[longest]})
        .with_columns(end=pl.col("start") + pl.col("idle_ns"))
        .hstack(activities_around(work, axis, idle.end[longest]))
    )
    found = (
        placed.with_columns(tasks_of_devices(run).gather(placed["device"])).sort("task", "start").with_row_index("gap")
    )
    devices = devices_of(run)
    table = (
        found.join(devices, on="device")
        .join(_longest_calls(found, _delaying_calls(run.calls, found)), on="gap", how="left")
        .join(_longest_ranges(found, main), on="gap", how="left")
        .with_columns(pl.col("call_ns").fill_null(0), start_ns="start")
    )
    ordered = table.sort("rank", "host", "gpu", "idle_ns", "start", descending=[False, False, False, True, False])
    return to_schema(ordered, IDLE_GAPS)


def activities_around(work: pl.DataFrame, axis: Axis, ends: Times) -> pl.DataFrame:
    """Return `after` and `before`: the names of the activities around idle times that end at positions on an axis.

    Null where an idle time is the first or the last one of its device.
    """
    own = pl.Series(axis.group(np.maximum(ends - 1, 0)))
    # A row at the end, for what is before the first row and behind the last one.
    none = pl.DataFrame({"device": [NO_DEVICE], "name": [None]})
    named = []
    # Of work that overlaps, the last to end comes before an idle time, whenever it began.
    for side, time, step in (("after", "end", -1), ("before", "start", 0)):
        ordered = work.select("device", time, "name").sort("device", time, maintain_order=True)
        at = np.searchsorted(axis.at(ordered["device"].to_numpy(), ordered[time].to_numpy()), ends, side="left")
        rows = pl.concat([ordered.select("device", "name"), none])[at + step]
        named.append(pl.when(rows["device"] == own).then(rows["name"]).cast(pl.String).alias(side))
    return pl.select(named)


def _nth_in_group(group: Indices) -> Indices:
    """Return how many rows of the same group come before each row. Rows of a group are together."""
    first = first_of_equals(group)
    begins = np.flatnonzero(first)
    nth: Indices = np.arange(len(group)) - begins[np.cumsum(first) - 1]
    return nth


def _delaying_calls(calls: pl.DataFrame, idle: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that may keep a device waiting meanwhile. Helper threads mostly sleep in OS calls.

    `idle`: start and end of the idle times.
    """
    main = main_rows(calls).rename({"row": "main"})
    meanwhile = whole_with_ns(calls, covered(idle)).filter(pl.col("name") != STREAM_WAIT)
    own = meanwhile.join(main, on="task", maintain_order="left")
    return own.filter((pl.col("kind") != "os") | (pl.col("row") == pl.col("main")))


def _overlapping_intervals(idle: pl.DataFrame, intervals: pl.DataFrame) -> pl.DataFrame:
    """Return the intervals of each gap's task that overlap with it, with gap, low and high (its borders).

    `idle`: gap, task, start and end.
    """
    wanted = intervals.join(idle.select("task").unique(), on="task", how="semi", maintain_order="left")
    if wanted.is_empty() or idle.is_empty():
        return wanted.clear().with_columns(gap=pl.lit(0, pl.UInt32), low=pl.lit(0), high=pl.lit(0))
    start, end, task = (idle[c].to_numpy() for c in ("start", "end", "task"))
    axis = axis_over(one_span(start.min(), end.max()), int(task.max()) + 1)
    a, b = (
        Spans(*(axis.at(frame["task"].to_numpy(), frame[c].to_numpy()) for c in ("start", "end")))
        for frame in (wanted, idle)
    )
    interval, gap = overlapping(a, b)
    borders = idle.select("gap", low="start", high="end")
    return wanted[interval].hstack(borders[gap])


def _longest_calls(idle: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return gap, kind, call and call_ns: the calls that fill most of a gap. Calls of several threads count once.

    A synchronization counts before the call that it is in.
    """
    order = pl.col("kind").cast(pl.String).replace_strict({MPI: 0, "synchronization": 1, "cuda": 2}, default=3)
    cut = _overlapping_intervals(idle, calls).with_columns(
        start=pl.max_horizontal("start", "low"), end=pl.min_horizontal("end", "high")
    )
    sums = cut.sort("start").group_by("gap", "kind", "name").agg(call_ns=covered_time())
    ranked = sums.with_columns(order=order, name=pl.col("name").cast(pl.String)).sort(
        "gap", "call_ns", "order", "name", descending=[False, True, False, False]
    )
    first = ranked.unique("gap", keep="first", maintain_order=True)
    return first.select("gap", pl.col("kind").cast(pl.String), "call_ns", call="name")


def _longest_ranges(idle: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """Return gap and range: the text that the innermost range has for the longest part of a gap.

    Null if that is the time in which no range is open. `idle`: gap (in order), task, start and end; `ranges`: RANGES.
    """
    by_text = ranges_in_gaps(idle, ranges).group_by("gap", "range").agg(pl.col("ns").sum())
    longest = by_text.sort("gap", "ns", "range", descending=[False, True, False], nulls_last=True)
    return longest.unique("gap", keep="first", maintain_order=True).select("gap", "range")


def ranges_in_gaps(idle: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """Return gap, range and `ns`: how long the innermost range that is open has each text, null where none is open.

    A text may come several times. `idle`: gap (in order), task, start and end; `ranges`: RANGES.
    """
    touching = _overlapping_intervals(idle, ranges)
    changes = [
        idle.select("gap", "task", at="start"),
        *(touching.filter(_inside(c)).select("gap", "task", at=c) for c in ("start", "end")),
    ]
    pieces = pl.concat(changes).unique().sort("gap", "at").rename({"at": "start"})
    pieces = pieces.join(idle.select("gap", until="end"), on="gap", maintain_order="left")
    ends = pl.col("start").shift(-1).over("gap").fill_null(pl.col("until"))
    pieces = pieces.with_columns(end=ends).drop("until").rename({"gap": "of"}).with_row_index("gap")
    inner = pieces.join(_open_ranges(pieces, ranges), on="gap", how="left", maintain_order="left")
    return inner.select(gap="of", range="range", ns=pl.col("end") - pl.col("start"))


def _inside(time: str) -> pl.Expr:
    """Return True where a time lies inside a gap (see _overlapping_intervals)."""
    return pl.col(time).is_between("low", "high", closed="none")


def _open_ranges(idle: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """Return gap and range: the text of the innermost range that is open when a gap begins.

    `idle`: gap (in order), task and start; `ranges`: RANGES.
    """
    begins = idle.with_columns(end=pl.col("start") + 1)
    inner = _overlapping_intervals(begins, ranges).sort("gap", "start", "end", descending=[False, True, False])
    return inner.unique("gap", keep="first", maintain_order=True).select("gap", range="text")

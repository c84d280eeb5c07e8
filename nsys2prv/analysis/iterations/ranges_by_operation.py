"""NVTX ranges by operation, with the device time of the work launched in them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.interval_frames import parts_by, whole_with_ns
from nsys2prv.analysis.iterations.phases import outermost
from nsys2prv.analysis.iterations.window import kept_steps
from nsys2prv.families.nvtx.range_patterns import pattern_of
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.lanes import crossing_lanes
from nsys2prv.intervals.nesting import NO_INTERVAL, innermost, nesting
from nsys2prv.intervals.spans import one_span, reach_before, time_in
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.iterations.steady import Window

PERCENTILES = (50, 90, 99)
# `range` is a pattern of texts. `instances` and `host_ns` are of its ranges in the window; `launched` counts the device
# activities that were launched in them, and `device_ns` is their time, the union on each device. `host_p50_ns` and so
# on are percentiles of the ranges' times on the host (ns).
RANGE_SUMS = {
    "range": pl.String(),
    "instances": pl.Int64(),
    "host_ns": pl.Int64(),
    "launched": pl.Int64(),
    "device_ns": pl.Int64(),
    **{f"host_p{p}_ns": pl.Float64() for p in PERCENTILES},
}
# Device activity (ns), and the number of a range in which it was launched.
_LAUNCHED = {"range": pl.UInt32(), "device": pl.Int64(), "start": pl.Int64(), "end": pl.Int64()}


def ranges_in(run: Run, main: pl.DataFrame, steps: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Return the ranges of the main threads in a window, whole. Some windows add `ns`, the time of a range in them.

    `steps`: OCCURRENCE of all iterations. Those of the window count from the begin of the first to the end of the last
    on the hosts: a range that loads data is outside of their time on the devices, which wait for it.
    """
    if not window.iterations:
        return main if window.of_all_device_work else whole_with_ns(main, window.spans)
    kept = kept_steps(steps, window)
    left_out = steps.join(kept, on=["task", "number", "repeat"], how="anti")
    whole = one_span(int(kept["start"].min()), int(kept["end"].max()))  # type: ignore[arg-type]
    axis = axis_over(whole, len(run.tasks))
    outside = axis.union(*(left_out[c].to_numpy() for c in ("task", "start", "end")))
    start, end = (axis.at(main["task"].to_numpy(), main[c].to_numpy()) for c in ("start", "end"))
    ns = end - start - (time_in(outside, end) - time_in(outside, start))
    return main.with_columns(ns=pl.Series(ns)).filter(pl.col("ns") > 0)


def range_sums(work: pl.DataFrame, main: pl.DataFrame) -> pl.DataFrame:
    """Return RANGE_SUMS of the main threads' ranges (see `ranges_in`) and of WORK, most device time first.

    Work belongs to a range as in `phases.projected`.
    """
    length = pl.col("ns") if "ns" in main.columns else pl.col("end") - pl.col("start")
    texts = main.select(pl.col("text").unique())
    patterns = texts.with_columns(range=pattern_of(pl.col("text")))
    numbers = patterns.with_columns(number=(pl.col("range").rank("dense") - 1).cast(pl.UInt32))
    # There may be millions of ranges: what is not needed any more goes.
    numbered = main.select("task", "start", "end", "text", ns=length).join(
        numbers.select("text", "number"), on="text", maintain_order="left"
    )
    numbered.drop_in_place("text")
    tail = {f"host_p{p}_ns": pl.col("ns").quantile(p / 100, "linear") for p in PERCENTILES}
    on_host = numbered.group_by("number").agg(instances=pl.len(), host_ns=pl.col("ns").sum(), **tail)
    numbered.drop_in_place("ns")
    numbered = numbered.sort("task", "start", "end", descending=[False, False, True])
    outer = outermost(numbered, numbered.select(pl.col("task") * numbers.height + pl.col("number")).to_series())
    del numbered
    launched = pl.concat([pl.DataFrame(schema=_LAUNCHED), *_launched(work, outer)])
    del outer
    on_device = _device_time(launched)
    names = numbers.select("number", "range").unique("number")
    table = names.join(on_host, on="number").join(on_device, left_on="number", right_on="range", how="left")
    sums = to_schema(table, RANGE_SUMS).with_columns(pl.col("launched", "device_ns").fill_null(0))
    return sums.sort("device_ns", "range", descending=[True, False])


def _launched(work: pl.DataFrame, ranges: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield _LAUNCHED: each activity with every range of its task in which it was launched, by the range's number.

    No two ranges of a task and number overlap.
    """
    by_task = parts_by(work.drop_nulls("launched"), "task")
    for task, own in parts_by(ranges, "task").items():
        if task not in by_task:
            continue
        group, start, end = np.zeros(own.height, np.int64), own["start"].to_numpy(), own["end"].to_numpy()
        lane = crossing_lanes(group, start, end)
        for n in range(int(lane.max(initial=-1)) + 1):
            yield from _in_nested(by_task[task], own.filter(pl.Series(lane == n)))


def _in_nested(work: pl.DataFrame, ranges: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield _LAUNCHED for ranges that nest: of the innermost range first, then of those around it."""
    group, start, end = np.zeros(ranges.height, np.int64), ranges["start"].to_numpy(), ranges["end"].to_numpy()
    _, parent, _ = nesting(group, start, end)
    at = work["launched"].to_numpy()
    within = innermost(group, start, end, parent, np.zeros(len(at), np.int64), at)
    activity, numbers = work.select("device", "start", "end"), ranges["number"]
    while len(held := np.flatnonzero(within != NO_INTERVAL)):
        activity, within = activity[held], within[held]
        yield activity.select(numbers.gather(within).alias("range"), "device", "start", "end")
        within = parent[within]


def _device_time(launched: pl.DataFrame) -> pl.DataFrame:
    """Return range, `launched` (number of activities) and `device_ns` (union on each device) of _LAUNCHED."""
    ordered = launched.sort("start")
    # There may be as many ranges as activities: grouping these by Polars takes long.
    devices = pl.col("device").max() + 1
    group = ordered.select(pl.col("range").cast(pl.Int64) * devices + pl.col("device")).to_series()
    reach = pl.Series(reach_before(group.to_numpy(), ordered["end"].to_numpy()))
    fresh = (pl.col("end") - pl.max_horizontal("start", reach)).clip(lower_bound=0)
    return ordered.with_columns(fresh=fresh).group_by("range").agg(launched=pl.len(), device_ns=pl.col("fresh").sum())

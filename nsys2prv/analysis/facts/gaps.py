"""Idle times of the devices, each until the host had launched the next work, and the time in which they count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.frames import NO_DEVICE
from nsys2prv.analysis.graph.critical_path import LONGEST_EXPLAINED_LAG_NS
from nsys2prv.analysis.interval_frames import covered_by
from nsys2prv.intervals.grouped import Axis, axis_over
from nsys2prv.intervals.spans import Spans, Times, difference, one_span, union
from nsys2prv.run.iterations.steady import Window


class DeviceWork(NamedTuple):
    """Times in which the devices of a run work, on an axis of the devices.

    `users`: device and task; `launched`: device, launched, caller_row and `goes_on` (it is of the launch before it) of
    each activity, in order of the axis, with a row of no device at the end; `starts`: when these start; `busy`: when
    devices work.
    """

    axis: Axis
    users: pl.DataFrame
    launched: pl.DataFrame
    starts: Times
    busy: Spans


class Gaps(NamedTuple):
    """Idle times of the devices of a run, on an axis of the devices.

    `users`: device and task; `found`: start, end, until (when the host had launched the next work), `caller_row`, the
    thread of that launch, and `before`, how many activities of all devices begin before its end, in order of the axis.
    """

    axis: Axis
    users: pl.DataFrame
    found: pl.DataFrame


def device_work(analysis: Analysis) -> DeviceWork:
    """Find when the devices of a run work."""
    work, axis = analysis.run.work, run_axis(analysis, len(analysis.run.devices))
    launch = ("device", "launched", "caller_row")
    # Work comes in order of start.
    ordered = work.select("start", *launch).sort("device", maintain_order=True)
    same = pl.all_horizontal(pl.col(c) == pl.col(c).shift(1) for c in launch)
    none = pl.DataFrame({"device": [NO_DEVICE], "launched": [None], "caller_row": [None], "goes_on": [False]})
    return DeviceWork(
        axis=axis,
        users=work.select("device", "task").unique().sort("device", "task"),
        launched=pl.concat([ordered.select(*launch, goes_on=same.fill_null(False)), none]),
        starts=axis.at(ordered["device"].to_numpy(), ordered["start"].to_numpy()),
        busy=covered_by(axis, work, "device"),
    )


def idle_gaps(work: DeviceWork, covered: Spans, timed: Spans) -> Gaps:
    """Return the idle times of the devices within some time, such as `kept_time` (ns of the trace).

    `timed`: when devices only time kernels, on an axis of the devices: they lack no work then.
    """
    return Gaps(work.axis, work.users, _gaps(work, difference(work.axis.spread(covered), timed)))


def _gaps(work: DeviceWork, whole: Spans) -> pl.DataFrame:
    """Return start and until of each idle time, on the axis: its begin, and when the host had launched the next work.

    Also `caller_row` and `before` (see Gaps). Devices without work have none.
    """
    axis, idle = work.axis, difference(whole, work.busy)
    used = np.isin(axis.group(idle.start), work.users["device"].to_numpy())
    idle = Spans(idle.start[used], idle.end[used])
    device = axis.group(idle.start)
    at = np.searchsorted(work.starts, idle.end, side="left")
    nexts = work.launched[at].with_columns(own=pl.Series(device))
    own = pl.col("device") == pl.col("own")
    known = nexts.select(pl.when(own).then(c).alias(c) for c in ("launched", "caller_row", "goes_on"))
    launched = known["launched"]
    # A launch takes a while to reach the device, which is part of it. Between two activities of one launch, as nodes of
    # a graph, the host has nothing left to launch.
    at_once = (pl.col("end") - pl.col("launched") <= LONGEST_EXPLAINED_LAG_NS) & ~pl.col("goes_on")
    until = pl.when(at_once).then("end").otherwise(pl.col("launched").clip(pl.col("start"), pl.col("end")))
    times = {"start": axis.time(idle.start), "end": axis.time(idle.end)}
    timed = pl.DataFrame(times).with_columns(launched, nexts["goes_on"]).select(until=pl.coalesce(until, "start"))
    return pl.DataFrame(
        {
            "start": idle.start,
            "end": idle.end,
            "until": axis.at(device, timed["until"].to_numpy()),
            "before": at,
            "caller_row": known["caller_row"].cast(pl.Int64),
        }
    )


def run_axis(analysis: Analysis, groups: int) -> Axis:
    """Return an axis of all the time of a run for some groups, such as its devices."""
    run, window = analysis.run, analysis.window
    # A wait may have begun before the window.
    return axis_over(one_span(min(window.start, 0), max(window.end, run.duration)), groups)


def kept_time(analysis: Analysis) -> Spans:
    """Return the time that STARVED covers, without the iterations within it that are left out (on the host)."""
    left = analysis.iterations.filter(~pl.col("steady")).with_columns(end_ns=pl.col("start_ns") + pl.col("total_ns"))
    return difference(starved_time(analysis.window), union(left["start_ns"].to_numpy(), left["end_ns"].to_numpy()))


def starved_time(window: Window) -> Spans:
    """Return the time that STARVED covers: the window, with what lies between its iterations."""
    return one_span(window.start, window.end) if window.iterations else window.spans

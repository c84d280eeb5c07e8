"""Idle time of devices without launched work, by what their hosts did: load, allocate, wait, launch.

Unlike IDLE_CAUSES, STARVED includes the time between iterations, and gives each time by its iteration.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.facts.system_time import system_time
from nsys2prv.analysis.facts.thresholds import HANDOVER, IN_ROW
from nsys2prv.analysis.facts.value_waits import value_waits
from nsys2prv.analysis.frames import MPI, Run
from nsys2prv.analysis.graph.critical_path import LONGEST_EXPLAINED_LAG_NS
from nsys2prv.analysis.interval_frames import at_longest, covered_by
from nsys2prv.analysis.iterations.phases import phase_of
from nsys2prv.families.host.cuda_api import MANAGING_MEMORY
from nsys2prv.intervals.grouped import Axis, axis_over
from nsys2prv.intervals.spans import Indices, Spans, Times, difference, intersection, one_span, time_in, union
from nsys2prv.run.steady import Window

# Idle time (ns) of each device (index in Run.devices) by iteration (null without any), in parts: `load`: a range of
# loading was open on the main thread; `allocating`: else, a thread allocated or freed memory; `system`: the thread that
# launched next was in a call of the operating system, such as `poll`, and waited for no other thread of its process;
# `synchronized`: the device became idle while its host waited for it, up to the length of that wait, or of a row of
# waits: the host could have launched meanwhile; `launching`: the rest. `longest`: the longest of these times, and `at`
# its begin.
STARVED = {
    "device": pl.Int64(),
    "repeat": pl.Int64(),
    "number": pl.Int64(),
    "load": pl.Int64(),
    "allocating": pl.Int64(),
    "system": pl.Int64(),
    "synchronized": pl.Int64(),
    "launching": pl.Int64(),
    "longest": pl.Int64(),
    "at": pl.Int64(),
}
PARTS = ("load", "allocating", "system", "synchronized", "launching")
# True for the calls (CALLS) in which a thread allocates, frees, maps or pins memory.
IS_ALLOCATION = (pl.col("kind") == "cuda") & pl.col("name").cast(pl.String).str.contains(MANAGING_MEMORY)


class Gaps(NamedTuple):
    """Idle times of the devices of a run, on an axis of the devices.

    `users`: device and task; `found`: start, end, until (when the host had launched the next work), `caller_row`, the
    thread of that launch, and `before`, how many activities of all devices begin before its end, in order of the axis.
    """

    axis: Axis
    users: pl.DataFrame
    found: pl.DataFrame


class Launchers(NamedTuple):
    """The threads that launch work: their rows, in order, and an axis of them.

    `in_system`: the time on it in which they wait for the system (see system_time); `value_waits`: OS calls in which
    main threads wait for values of the device: until these have handed on, no other thread waits for the system.
    """

    rows: Indices
    axis: Axis
    in_system: Spans
    value_waits: pl.DataFrame


def find_launchers(analysis: Analysis) -> Launchers:
    """Find the threads that launch work in a run."""
    rows = analysis.run.work["caller_row"].drop_nulls().unique().sort().to_numpy()
    axis, waits = _axis(analysis, len(rows)), value_waits(analysis)
    threads = analysis.run.work.select("task", row="caller_row").drop_nulls().unique()
    threads = threads.with_columns(thread=pl.Series(np.searchsorted(rows, threads["row"].to_numpy()), dtype=pl.Int64))
    awaited = waits.select("task", "start", end=pl.col("end") + round(HANDOVER.value)).join(threads, on="task")
    in_system = difference(system_time(analysis.run, rows, axis), covered_by(axis, awaited, "thread"))
    return Launchers(rows, axis, in_system, waits)


def _axis(analysis: Analysis, groups: int) -> Axis:
    """Return an axis of all the time of a run for some groups."""
    run, window = analysis.run, analysis.window
    # A wait may have begun before the window.
    return axis_over(one_span(min(window.start, 0), max(window.end, run.duration)), groups)


def idle_gaps(analysis: Analysis, covered: Spans) -> Gaps:
    """Return the idle times of the devices within some time, such as `kept_time` (ns of the trace)."""
    run = analysis.run
    users = run.work.select("device", "task").unique().sort("device", "task")
    axis = _axis(analysis, len(run.devices))
    return Gaps(axis, users, _gaps(run.work, users, axis, covered))


def kept_time(analysis: Analysis) -> Spans:
    """Return the time that STARVED covers, without the iterations within it that are left out (on the host)."""
    left = analysis.iterations.filter(~pl.col("steady")).with_columns(end_ns=pl.col("start_ns") + pl.col("total_ns"))
    return difference(starved_time(analysis.window), union(left["start_ns"].to_numpy(), left["end_ns"].to_numpy()))


def starved_time(window: Window) -> Spans:
    """Return the time that STARVED covers: the window, with what lies between its iterations."""
    return one_span(window.start, window.end) if window.iterations else window.spans


def starved(analysis: Analysis, launchers: Launchers, begins: pl.DataFrame) -> pl.DataFrame:
    """Return STARVED for each device and iteration of the window; without iterations for the window.

    `begins`: see step_begins.
    """
    idle = idle_gaps(analysis, starved_time(analysis.window))
    axis, users, gaps = idle
    blocked = {kind: _together(axis, users, own) for kind, own in _blocked(analysis, launchers).items()}
    # A time counts once: memory that is allocated to load data is loading.
    in_load = _together(axis, users, load_ranges(analysis))
    in_mpi = difference(blocked["mpi"], in_load)
    in_allocation = difference(difference(blocked["allocation"], in_load), in_mpi)
    load, mpi, allocating = (_inside(spans, gaps) for spans in (in_load, in_mpi, in_allocation))
    waited = _wait_before(blocked["synchronization"], gaps)
    rest = pl.col("until") - pl.col("start") - pl.sum_horizontal("load", "mpi", "allocating")
    timed = (
        gaps.with_columns(load=load, mpi=mpi, allocating=allocating, waited=waited, system=_in_system(launchers, idle))
        .with_columns(rest.clip(lower_bound=0).alias("rest"))
        .with_columns(pl.min_horizontal("rest", "system").alias("system"))
        .with_columns(
            pl.col("rest") - pl.col("system"),
            device=pl.Series(axis.group(gaps["start"].to_numpy())),
            start=pl.Series(axis.time(gaps["start"].to_numpy())),
        )
    )
    timed = timed.with_columns(synchronized=_without_lead(timed))
    timed = timed.with_columns(launching=pl.col("rest") - pl.col("synchronized"))
    return _by_iteration(timed, begins, users["device"].unique().sort())


def longest_at(starved: pl.DataFrame, part: str) -> int | None:
    """Return when the longest idle time begins (ns) where most of a part of STARVED is, None where no device has it."""
    at: int | None = starved.filter(pl.col(part) > 0).select(at_longest(part, "at")).item()
    return at


def load_ranges(analysis: Analysis) -> pl.DataFrame:
    """Return the ranges of the main threads that load data, by their names: columns of RANGES."""
    return analysis.main_ranges.filter((phase_of(pl.col("text")) == "load").fill_null(False))


def _gaps(work: pl.DataFrame, users: pl.DataFrame, axis: Axis, whole: Spans) -> pl.DataFrame:
    """Return start and until of each idle time, on the axis: its begin, and when the host had launched the next work.

    Also `caller_row` and `before` (see Gaps). Devices without work have none.
    """
    # Between two activities of one launch, as nodes of a graph, the host has nothing left to launch.
    same = pl.all_horizontal(pl.col(c) == pl.col(c).shift(1) for c in ("device", "launched", "caller_row"))
    columns = ("device", "launched", "caller_row", "goes_on")
    ordered = work.sort("device", "start").select("start", *columns[:3], goes_on=same.fill_null(False))
    idle = difference(axis.spread(whole), covered_by(axis, work, "device"))
    used = np.isin(axis.group(idle.start), users["device"].to_numpy())
    idle = Spans(idle.start[used], idle.end[used])
    device = axis.group(idle.start)
    at = np.searchsorted(axis.at(ordered["device"].to_numpy(), ordered["start"].to_numpy()), idle.end, side="left")
    none = pl.DataFrame({"device": [-1], "launched": [None], "caller_row": [None], "goes_on": [False]})
    nexts = pl.concat([ordered.select(columns), none])[at].with_columns(own=pl.Series(device))
    known = nexts.select(pl.when(pl.col("device") == pl.col("own")).then(c).alias(c) for c in columns[1:])
    launched = known["launched"]
    # A launch takes a while to reach the device, which is part of it.
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


def _inside(spans: Spans, gaps: pl.DataFrame) -> pl.Series:
    start, until = gaps["start"].to_numpy(), gaps["until"].to_numpy()
    return pl.Series(time_in(spans, until) - time_in(spans, start), dtype=pl.Int64)


def system_calls(run: Run, launchers: Launchers, gaps: Gaps) -> pl.DataFrame:
    """Return `name`, `ns` and `calls` of the OS calls of threads that launch next, by their time in idle times.

    Only time in which they wait for the system counts (see system_time).
    """
    idle = intersection(idle_of_launchers(launchers, gaps), launchers.in_system)
    return calls_inside(run, launchers.rows, launchers.axis, idle, pl.col("kind") == "os")


def calls_in_gaps(run: Run, launchers: Launchers, gaps: Gaps, chosen: pl.Expr) -> pl.DataFrame:
    """Return `name`, `ns` and `calls` of the chosen calls of threads that launch next, by their time in idle times."""
    return calls_inside(run, launchers.rows, launchers.axis, idle_of_launchers(launchers, gaps), chosen)


def idle_of_launchers(launchers: Launchers, gaps: Gaps) -> Spans:
    """Return the idle times after which each thread launches, on the axis of the threads."""
    return launchers.axis.union(*_by_thread(launchers, gaps))


def calls_inside(run: Run, threads: Indices, each: Axis, inside: Spans, chosen: pl.Expr) -> pl.DataFrame:
    """Return `name`, `ns` and `calls` of the chosen calls of threads, by their time inside spans of the threads."""
    calls = run.calls.filter(pl.col("row").is_in(pl.Series(threads).implode()), chosen)
    thread = np.searchsorted(threads, calls["row"].to_numpy())
    start, end = (each.at(thread, calls[c].to_numpy()) for c in ("start", "end"))
    timed = calls.select(pl.col("name").cast(pl.String), ns=pl.Series(time_in(inside, end) - time_in(inside, start)))
    by_name = timed.filter(pl.col("ns") > 0).group_by("name").agg(pl.col("ns").sum(), calls=pl.len())
    return by_name.sort("ns", "name", descending=[True, False])


def _in_system(launchers: Launchers, gaps: Gaps) -> pl.Series:
    """Return how long (ns) the thread that launches next waits for the system in each idle time."""
    thread, *times = _by_thread(launchers, gaps)
    start, until = (launchers.axis.at(thread, time) for time in times)
    ns = np.zeros(gaps.found.height, dtype=np.int64)
    known = gaps.found["caller_row"].is_not_null().to_numpy()
    ns[known] = time_in(launchers.in_system, until) - time_in(launchers.in_system, start)
    return pl.Series(ns)


def _by_thread(launchers: Launchers, gaps: Gaps) -> tuple[Indices, Times, Times]:
    """Return thread (its number), start and until (ns) of the idle times after which a known thread launches."""
    known = gaps.found.drop_nulls("caller_row")
    start, until = (gaps.axis.time(known[c].to_numpy()) for c in ("start", "until"))
    return np.searchsorted(launchers.rows, known["caller_row"].to_numpy()), start, until


def _wait_before(waits: Spans, gaps: pl.DataFrame) -> pl.Series:
    """Return how long the host had waited (ns) when each idle time began, 0 if it did not wait then."""
    start = gaps["start"].to_numpy()
    if not len(waits.start):
        return pl.Series(np.zeros(len(start), dtype=np.int64))
    at = np.searchsorted(waits.start, start, side="right") - 1
    since, until = waits.start[np.maximum(at, 0)], waits.end[np.maximum(at, 0)]
    return pl.Series(np.where((at >= 0) & (start < until), start - since, 0))


def _without_lead(gaps: pl.DataFrame) -> pl.Series:
    """Return how much of `rest` of each idle time (ns) is due to waits (`waited`) of the host.

    While the host waited it could have launched: it lost that much of its lead, and an idle time at the end of the wait
    takes of it what it can. Waits with few launches between are one row, as where a program reads the norm of each
    gradient: then later idle times take of the lead what is still there, lost = max(0, lost before + waited - rest).
    That is Lindley's recursion (1952, "The theory of queues with a single server").
    """
    waits, row = pl.col("waited") > 0, ("device", "row")
    # Step by step: older releases of Polars have no windows within windows.
    own = gaps.with_columns(at=pl.when(waits).then("before"))
    own = own.with_columns(
        last=pl.col("at").forward_fill().over("device"), following=pl.col("at").shift(-1).backward_fill().over("device")
    )
    own = own.with_columns(in_row=(pl.col("following") - pl.col("last") <= IN_ROW.value).fill_null(False))
    own = own.with_columns(begins=waits & ~pl.col("in_row").shift(1, fill_value=False).over("device"))
    own = own.with_columns(row=pl.col("begins").cast(pl.Int64).cum_sum().over("device"))
    own = own.with_columns(change=(pl.col("waited") - pl.col("rest")).cum_sum().over(row))
    own = own.with_columns(lost=pl.col("change") - pl.min_horizontal(pl.col("change").cum_min().over(row), 0))
    taken = pl.col("lost").shift(1, fill_value=0).over(row) + pl.col("waited") - pl.col("lost")
    return own.select(pl.when(waits | pl.col("in_row")).then(taken).otherwise(0)).to_series()


def _together(axis: Axis, users: pl.DataFrame, intervals: pl.DataFrame) -> Spans:
    """Return the time in which all tasks that use a device have an interval: one task alone does not keep it idle.

    `users`: device and task; the spans are on the axis of the devices.
    """
    numbered = users.with_row_index("user").cast({"user": pl.Int64})
    own = Axis(axis.low, axis.high, users.height)
    each = covered_by(own, intervals.join(numbered, on="task"), "user")
    user = own.group(each.start)
    device = users["device"].to_numpy()
    start, end = (axis.at(device[user], own.time(places)) for places in each)
    needed = np.bincount(device, minlength=axis.groups)
    return _all_over(start, end, needed[device[user]])


def _all_over(start: Times, end: Times, needed: Indices) -> Spans:
    """Return the time in which as many intervals overlap as is `needed` there."""
    change = np.concatenate([start, end])
    step = np.repeat(np.array([1, -1]), len(start))
    order = np.lexsort((step, change))
    change, depth = change[order], np.cumsum(step[order])
    begins = np.flatnonzero((depth == np.tile(needed, 2)[order]) & (step[order] > 0))
    return Spans(change[begins], change[begins + 1])


def _blocked(analysis: Analysis, launchers: Launchers) -> dict[str, pl.DataFrame]:
    """Return by kind the calls of any thread that are in MPI, wait for a device, or allocate: columns of CALLS."""
    calls = analysis.run.calls
    return {
        "mpi": calls.filter(kind=MPI),
        "synchronization": pl.concat([analysis.explanation.device_waits, launchers.value_waits]),
        "allocation": calls.filter(IS_ALLOCATION),
    }


def _by_iteration(own: pl.DataFrame, begins: pl.DataFrame, devices: pl.Series) -> pl.DataFrame:
    """Return STARVED of the gaps of `devices`. A time between two iterations belongs to the one before it."""
    named = own.with_columns(repeat=pl.lit(None, pl.Int64), number=pl.lit(None, pl.Int64), steady=pl.lit(True))
    if begins.height:
        at = np.searchsorted(begins["begin"].to_numpy(), own["start"].to_numpy(), side="right") - 1
        named = own.hstack(begins.select("repeat", "number", "steady")[np.maximum(at, 0)]).filter(pl.Series(at >= 0))
    length, by = pl.sum_horizontal(*PARTS), ["device", "repeat", "number"]
    sums = (
        named.filter("steady")
        .group_by(by, maintain_order=True)
        .agg(pl.col(*PARTS).sum(), longest=length.max(), at=at_longest(length))
    )
    if begins.height:
        steady = (
            devices.alias("device").to_frame().join(begins.filter("steady").select("repeat", "number"), how="cross")
        )
        sums = steady.join(sums, on=by, how="left").with_columns(pl.col(*PARTS).fill_null(0))
    return sums.select(pl.col(c).cast(t) for c, t in STARVED.items())

"""The threads that launch work: what they wait for, and their calls while devices have nothing to do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.facts.gaps import Gaps, run_axis
from nsys2prv.analysis.facts.system_time import system_time
from nsys2prv.analysis.facts.thresholds import HANDOVER
from nsys2prv.analysis.facts.value_waits import value_waits
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.interval_frames import covered_by
from nsys2prv.intervals.grouped import Axis
from nsys2prv.intervals.spans import Indices, Spans, Times, difference, intersection, time_in


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
    axis, waits = run_axis(analysis, len(rows)), value_waits(analysis)
    threads = analysis.run.work.select("task", row="caller_row").drop_nulls().unique()
    threads = threads.with_columns(thread=pl.Series(np.searchsorted(rows, threads["row"].to_numpy()), dtype=pl.Int64))
    awaited = waits.select("task", "start", end=pl.col("end") + round(HANDOVER.value)).join(threads, on="task")
    in_system = difference(system_time(analysis.run, rows, axis), covered_by(axis, awaited, "thread"))
    return Launchers(rows, axis, in_system, waits)


def os_calls_in_gaps(run: Run, launchers: Launchers, gaps: Gaps) -> pl.DataFrame:
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


def time_in_system(launchers: Launchers, gaps: Gaps) -> pl.Series:
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

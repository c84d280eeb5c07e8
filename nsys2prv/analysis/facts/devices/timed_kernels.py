"""Kernels that are launched again and again to be timed, as an autotuner does to choose between configurations."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.devices.elementwise_chains import ELEMENTWISE
from nsys2prv.analysis.facts.devices.kernels_in_order import kernels_in_order
from nsys2prv.analysis.facts.devices.rounds import Rounds, rounds_of_streams
from nsys2prv.analysis.facts.gaps import run_axis, starved_time
from nsys2prv.analysis.facts.long_steps import step_begins
from nsys2prv.analysis.facts.starved import starved
from nsys2prv.analysis.facts.thresholds import RECORDS_OF_TIMED
from nsys2prv.analysis.frames import KERNEL
from nsys2prv.analysis.interval_frames import at_longest, covered_by
from nsys2prv.intervals.spans import Spans, difference, intersection

# A round is the kernel that is timed, or that and a kernel that empties the cache before it (do_bench of Triton).
LONGEST_TIMED_ROUND = 2
EVENT_CALLS, STREAM_WAIT = r"^cu(?:da)?(?:EventRecord|StreamWaitEvent)", "StreamWaitEvent"


class TimedKernels(NamedTuple):
    """Kernels that are launched to be timed.

    `name`: the one that is timed most often; `launches`: how often any is timed (on a device, in an iteration); `ns`:
    how long they and what is between them take (of a device, in an iteration); `at`: when the longest of these times
    begins (ns); `spans`: the times in which all devices of the run only do that (ns of the trace).
    """

    name: str
    launches: float
    ns: float
    at: int
    spans: Spans


def without_timed(case: Case) -> Case:
    """Return a case in which devices lack no work while kernels are timed: that has a finding of its own."""
    found = find_timed(case)
    if found is None:
        return case
    covered = difference(starved_time(case.analysis.window), found.spans)
    rest = starved(case.analysis, case.launchers, step_begins(case.analysis), covered)
    return replace(case, starved=rest, timed=found.spans)


@once
def find_timed(case: Case) -> TimedKernels | None:
    """Find kernels that repeat between pairs of event records; None without any.

    A solver may repeat one or two kernels as often, but it records no events before and after each. Nor does a program
    of several streams: its process launches more than the rounds of one, and streams wait for its events.
    """
    rounds = [one for one in rounds_of_streams(case) if one.length <= LONGEST_TIMED_ROUND]
    if not rounds:
        return None
    rows = _with_calls(case, _rows(case, rounds).drop_nulls(["first", "last"]))
    rows = rows.filter(pl.col("records") - pl.col("waits") >= RECORDS_OF_TIMED.value * pl.col("rounds"))
    if rows.is_empty():
        return None
    by_name = rows.group_by("name").agg(pl.col("launches").sum()).sort("launches", "name")
    times = _times(case, rows)
    axis = run_axis(case.analysis, len(case.run.devices))
    spans = covered_by(axis, times, "device")
    at = times.select(at_longest(pl.col("end") - pl.col("start"))).item()
    launches, time = int(rows["launches"].sum()), spans.total()
    together = reduce(intersection, axis.apart(spans))
    return TimedKernels(by_name["name"][-1], case.of_device(launches), case.of_device(time), at, together)


def _times(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Return device, start and end of the times in which kernels are timed.

    They are rows of rounds, and what is between two of them where no other kernel runs: an autotuner reads its events
    there, tries how often to repeat the next kernel, and compiles it.
    """
    ordered = rows.sort("device", "start").with_columns(end=pl.col("start") + pl.col("ns"))
    between = ordered.select("task", first=pl.col("end").shift(1).over("device"), last="start")
    timed = pl.concat([rows["name"], rows["beside"]]).unique()
    others = case.kernels.filter(~pl.col("name").cast(pl.String).is_in(timed.implode())).select("task", at="start")
    begins = between["first"].is_null() | (_between(between, others) > 0)
    by_time = ordered.group_by("device", begins.cum_sum().alias("time"), maintain_order=True)
    return by_time.agg(pl.col("start").min(), pl.col("end").max())


def _rows(case: Case, rounds: list[Rounds]) -> pl.DataFrame:
    """Return columns of each row of rounds.

    task, device, name (of the kernel that is timed), `beside` (that of the other one in a round, or the same),
    launches, start, ns, `first` and `last` (when these kernels are launched), and `length` of a round.
    """
    ordered = kernels_in_order(case)
    found = pl.DataFrame(rounds, schema=dict.fromkeys(Rounds._fields, pl.Int64), orient="row")
    at_begin, at_end = (ordered[rows] for rows in (found["first"], found["first"] + found["kernels"] - 1))
    # In rounds of two kernels the elementwise one empties the cache.
    other = ordered[found["first"] + found["length"] - 1]
    cleared = at_begin["family"].cast(pl.String) == ELEMENTWISE
    names = [one["name"].cast(pl.String) for one in (at_begin, other)]
    return pl.DataFrame(
        {
            "task": at_begin["task"],
            "device": at_begin["device"],
            "name": names[1].zip_with(cleared, names[0]),
            "beside": names[0].zip_with(cleared, names[1]),
            "launches": found["kernels"] // found["length"],
            "start": at_begin["start"],
            "ns": at_end["end"] - at_begin["start"],
            "first": at_begin["launched"],
            "last": at_end["launched"],
            "length": found["length"],
        }
    )


def _with_calls(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Add what a row's process does from its first to its last launch.

    `records`: how many events it records; `waits`: how often it lets a stream wait for one; `rounds`: how many rounds
    all kernels make that it launches then.
    """
    name = pl.col("name").cast(pl.String)
    calls = case.run.calls.filter(pl.col("kind") == "cuda", name.str.contains(EVENT_CALLS))
    is_wait = name.str.contains(STREAM_WAIT, literal=True)
    records, waits = (calls.filter(which).select("task", at="start") for which in (~is_wait, is_wait))
    launches = case.run.work.filter(pl.col("kind") == KERNEL).select("task", at="launched").drop_nulls()
    return rows.with_columns(
        records=_between(rows, records), waits=_between(rows, waits), rounds=_between(rows, launches) / rows["length"]
    )


def _between(rows: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
    """Return how many calls (task, `at`) of a row's process lie behind its `first` launch, up to its `last` one."""
    counted = calls.sort("at").with_columns(count=pl.int_range(1, pl.len() + 1).over("task"))
    first, last = (
        rows.select("task", at=edge)
        .with_row_index("row")
        .sort("at")
        .join_asof(counted, on="at", by="task", check_sortedness=False)
        .sort("row")["count"]
        .fill_null(0)
        for edge in ("first", "last")
    )
    return last - first

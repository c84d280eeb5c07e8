"""Kernels that are launched again and again to be timed, as an autotuner does to choose between configurations."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.facts.find_rounds import Rounds
from nsys2prv.analysis.facts.gaps import run_axis
from nsys2prv.analysis.facts.kernel_families import ELEMENTWISE
from nsys2prv.analysis.facts.thresholds import RECORDS_OF_TIMED, WARM_UP
from nsys2prv.analysis.frames import KERNEL, Run
from nsys2prv.analysis.interval_frames import at_longest, covered_by
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.intervals.grouped import Axis
from nsys2prv.intervals.spans import Spans, intersection, time_in

# A round is the kernel that is timed, or that and a kernel that empties the cache before it (do_bench of Triton).
LONGEST_TIMED_ROUND = 2
EVENT_CALLS, STREAM_WAIT = r"^cu(?:da)?(?:EventRecord|StreamWaitEvent)", "StreamWaitEvent"


class TimedKernels(NamedTuple):
    """Kernels that are launched to be timed. Without any there are no launches and no times.

    `name`: the one that is timed most often; `launches`: how often any is timed, by all devices in the window; `at`:
    when the longest of these times begins (ns); `devices`: the times in which each device only does that, on an axis of
    the devices (see run_axis); `tasks`: those in which each process does, on the `axis` of the processes.
    """

    name: str
    launches: int
    at: int | None
    devices: Spans
    tasks: Spans
    axis: Axis

    def left_out(self, intervals: pl.DataFrame, covered: Spans) -> pl.DataFrame:
        """Return intervals with `ns` less the time in which their process times kernels, without those that lie in it.

        `intervals`: task, start, end, and `ns`, their time in `covered` (ns of the trace).
        """
        if not self.launches:
            return intervals
        inside = intersection(self.axis.spread(covered), self.tasks)
        timed = _time_inside(inside, self.axis, intervals, "task")
        less = intervals.with_columns(pl.col("ns") - timed)
        return less.filter((pl.col("ns") > 0) | (timed == 0))


def find_timed(analysis: Analysis, ordered: pl.DataFrame, rounds: tuple[Rounds, ...]) -> TimedKernels:
    """Find kernels that repeat between pairs of event records. `ordered`, `rounds`: see Case.

    A solver may repeat one or two kernels as often, but it records no events before and after each. Nor does a program
    of several streams: its process launches more than the rounds of one, and streams wait for its events.
    """
    run = analysis.run
    rows = _rows(ordered, [one for one in rounds if one.length <= LONGEST_TIMED_ROUND])
    rows = _with_calls(run, rows.drop_nulls(["first", "last"]))
    rows = rows.filter(pl.col("records") - pl.col("waits") >= RECORDS_OF_TIMED.value * pl.col("rounds"))
    by_name = rows.group_by("name").agg(pl.col("launches").sum()).sort("launches", "name")
    times = _times(analysis, ordered, rows)
    devices, tasks = (run_axis(analysis, len(those)) for those in (run.devices, run.tasks))
    return TimedKernels(
        name="" if by_name.is_empty() else by_name["name"][-1],
        launches=int(rows["launches"].sum()),
        at=times.select(at_longest(pl.col("end") - pl.col("start"))).item(),
        devices=covered_by(devices, times, "device"),
        tasks=covered_by(tasks, times, "task"),
        axis=tasks,
    )


def _times(analysis: Analysis, ordered: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Return task, device, start and end of the times in which kernels are timed.

    They are rows of rounds, and what is between two kernels of them where no other work runs, of the device or of the
    process: an autotuner reads its events there, tries how often to repeat the next kernel, and compiles it.
    """
    key = ["task", "device"]
    rows = rows.sort(*key, "start")
    rows = rows.with_columns(apart=_apart(analysis.run, rows))
    position = pl.int_ranges("position", pl.col("position") + pl.col("kernels"))
    kernels = rows.with_row_index("number").select(*key, "number", "apart", position=position).explode("position")
    kernels = kernels.with_columns(ordered[c].gather(kernels["position"]) for c in ("start", "end"))
    between = kernels.select(*key, start=pl.col("end").shift(1).over(key).fill_null(pl.col("start")), end="start")
    begins = _other_work(analysis, rows, between) > 0
    begins |= kernels.select(pl.col("apart") & pl.col("number").ne_missing(pl.col("number").shift(1))).to_series()
    by_time = kernels.group_by(*key, begins.cum_sum().alias("time"), maintain_order=True)
    return by_time.agg(pl.col("start").min(), pl.col("end").max())


def _apart(run: Run, rows: pl.DataFrame) -> pl.Series:
    """Return for each row if more is launched before it, behind another one, than warms a kernel up to be timed.

    Then the program uses the kernel. `rows`: in order of task, device and start.
    """
    last = pl.col("last").shift(1).over("task", "device").fill_null(pl.col("first"))
    launched = _with_calls(run, rows.select("task", "length", "launches", first=last, last="first"))
    in_pairs = pl.col("records") / 2
    # The cache is emptied before launches that are timed, and not before others.
    others = (pl.col("rounds") - in_pairs) * pl.col("length")
    return launched.select(others > WARM_UP.value * (in_pairs + pl.col("launches"))).to_series()


def _other_work(analysis: Analysis, rows: pl.DataFrame, between: pl.DataFrame) -> pl.Series:
    """Return how long (ns) work that is not timed runs between rows, of the device and of the process.

    `between`: task, device, start and end.
    """
    run, timed = analysis.run, pl.concat([rows["name"], rows["beside"]]).unique()
    others = run.work.filter(~pl.col("name").is_in(timed.implode()))
    total = pl.Series([0] * between.height, dtype=pl.Int64)
    for column, groups in (("device", run.devices), ("task", run.tasks)):
        axis = run_axis(analysis, len(groups))
        total += _time_inside(covered_by(axis, others, column), axis, between, column)
    return total


def _rows(ordered: pl.DataFrame, rounds: list[Rounds]) -> pl.DataFrame:
    """Return columns of each row of rounds.

    task, device, name (of the kernel that is timed), `beside` (that of the other one in a round, or the same),
    launches, start, `first` and `last` (when these kernels are launched), `length` of a round, the `position` of the
    first kernel among the ordered ones, and how many `kernels` there are.
    """
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
            "first": at_begin["launched"],
            "last": at_end["launched"],
            "length": found["length"],
            "position": found["first"],
            "kernels": found["kernels"],
        }
    )


def _with_calls(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """Add what a row's process does from its first to its last launch.

    `records`: how many events it records; `waits`: how often it lets a stream wait for one; `rounds`: how many rounds
    all kernels make that it launches then.
    """
    calls = run.calls.filter(pl.col("kind") == "cuda", text_contains("name", EVENT_CALLS))
    is_wait = text_contains("name", STREAM_WAIT)
    records, waits = (calls.filter(which).select("task", at="start") for which in (~is_wait, is_wait))
    launches = run.work.filter(pl.col("kind") == KERNEL).select("task", at="launched").drop_nulls()
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


def _time_inside(spans: Spans, axis: Axis, frame: pl.DataFrame, column: str) -> pl.Series:
    """Return the time (ns) of each interval of a frame (start, end) inside spans on an axis of the groups `column`."""
    group, *edges = (frame[c].to_numpy() for c in (column, "start", "end"))
    start, end = (time_in(spans, axis.at(group, edge)) for edge in edges)
    return pl.Series(end - start, dtype=pl.Int64)

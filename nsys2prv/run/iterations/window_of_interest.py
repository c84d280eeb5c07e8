"""The window of interest: the spans of a run that the trace marks and that analysis cfgs use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.errors import UsageError
from nsys2prv.families.nvtx.passes import repeats_of
from nsys2prv.families.nvtx.range_patterns import numbered_text
from nsys2prv.intervals.shortest import end_of
from nsys2prv.intervals.spans import Span, Spans, one_span, union
from nsys2prv.model.global_ids import process_of
from nsys2prv.model.interning import GPU, STREAM
from nsys2prv.model.schemas import to_schema
from nsys2prv.model.words import short
from nsys2prv.run.clocks import Clock
from nsys2prv.run.iterations.milestones import ReportRepeats, choose_milestone, numbered_steps
from nsys2prv.run.iterations.steady import DEVICE, ITERATION_PART, STEADY, TRACE, Window, all_recorded, steady_window
from nsys2prv.run.named_ranges import span_of_range
from nsys2prv.run.objects import Objects
from nsys2prv.run.ranks import numbers_of_tasks
from nsys2prv.run.report_summary import Summary
from nsys2prv.run.trace_rows import NO_ROW

# To stop a profiler and start it again takes longer than this (ns): without events for less, a task was only idle.
SHORTEST_PAUSE = 10_000_000


class WantedWindow(NamedTuple):
    """The window of interest that is wanted.

    `repeats` finds the work that repeats where no range numbers the iterations (None: it is not looked for).
    """

    name: str
    repeats: Callable[[Sequence[Summary]], Sequence[ReportRepeats]] | None = None


DEVICE_WINDOW = WantedWindow(DEVICE)


class DrawnTime(NamedTuple):
    """The time that a trace draws (ns of the trace).

    `events`: row, first and last of drawn events; `active`: first to last device activity; `captures`: from
    captures_of; `cut`: only a chosen part of the run is drawn.
    """

    events: pl.DataFrame
    active: Span
    duration: int
    captures: Sequence[Spans]
    cut: bool


def window_of_interest(
    wanted: WantedWindow,
    summaries: Sequence[Summary],
    clocks: Sequence[Clock],
    objects: Objects,
    drawn: DrawnTime,
) -> Window:
    """Return the window that is wanted: `steady`, `device`, `trace`, or else that of an NVTX range over all reports.

    Raises UsageError where no report has the range, or the trace does not reach to it.
    """
    name = wanted.name
    if name == STEADY:
        parts = _iteration_parts(summaries, clocks, objects)
        if parts.is_empty() and wanted.repeats:
            parts = _repeated_parts(wanted.repeats(summaries), summaries, clocks, objects)
        return _steady(parts, objects, drawn)
    if name == DEVICE:
        return Window(name, one_span(*drawn.active))
    if name == TRACE:
        return Window(name, one_span(0, drawn.duration))
    low, high = span_of_range(summaries, clocks, name)
    if high <= 0 or low >= drawn.duration:
        raise UsageError(
            f"--window {short(name)!r}: the trace draws nothing of its time; give another window, or draw nvtx, too"
        )
    return Window(name, one_span(max(low, 0), min(high, drawn.duration)))


def _steady(parts: pl.DataFrame, objects: Objects, drawn: DrawnTime) -> Window:
    """Return the steady part of ITERATION_PART, or without any the time in which all tasks recorded."""
    key = ["repeat", "number"]
    until = pl.max_horizontal("last", "end") if drawn.cut else pl.coalesce("last", "end")
    is_whole = (pl.col("start") >= 0) & (until <= drawn.duration)
    not_whole = parts.filter(~is_whole).select(key).unique()
    touching = (pl.coalesce("last", "end") > 0) & (pl.col("start") < drawn.duration)
    # Without a chosen time there is no reason to name: iterations that the trace does not hold whole are dropped.
    parts = parts.filter(touching) if drawn.cut else parts.join(not_whole, on=key, how="anti", maintain_order="left")
    rows = objects.rows
    kinds = pl.DataFrame({"row": range(len(rows.task)), "task": rows.task.astype("int64") - 1, "kind": rows.kind})
    every = drawn.events.join(kinds.cast({"row": drawn.events.schema["row"]}), on="row")
    # Samples of a GPU may begin long before the first event of its process.
    recorded = _recorded(every.filter(pl.col("kind") != GPU))
    working = every.join(every.filter(pl.col("kind") == STREAM), on="task", how="semi")
    times = _recorded(working if working.height else every).values()
    otherwise = all_recorded(times, drawn.active, drawn.captures)
    ranks = dict(enumerate(numbers_of_tasks(objects.ranks)))
    return steady_window(parts, recorded, ranks, otherwise, not_whole if drawn.cut else None)


def _recorded(drawn: pl.DataFrame) -> dict[int, tuple[int, int]]:
    """Return the first and the last instant (ns) that each task recorded anything."""
    times = drawn.group_by("task").agg(pl.col("first").min(), pl.col("last").max())
    return {int(task): (int(first), int(last)) for task, first, last in times.sort("task").rows()}


def captures_of(drawn: pl.DataFrame, objects: Objects, clocks: Sequence[Clock]) -> tuple[Spans, ...]:
    """Return the recorded spans of each task that several reports recorded with pauses between them.

    `drawn`: report, row, first and last of drawn events (ns of the trace). A report's span does not begin before its
    session: a call in it may have begun long before.
    """
    task = pl.Series("task", objects.rows.task[drawn["row"].to_numpy()], dtype=pl.Int64)
    session = pl.Series([clock.merged_one(clock.start) for clock in clocks], dtype=pl.Int64)
    first = pl.max_horizontal(pl.col("first"), pl.lit(session).gather(pl.col("report")))
    each = drawn.with_columns(task, first=first).group_by("task", "report")
    parts = each.agg(pl.col("first").min(), pl.col("last").max()).sort("task", "report")
    spans = [
        _without_short_pauses(union(own["first"].to_numpy(), own["last"].to_numpy()))
        for _, own in parts.group_by("task", maintain_order=True)
        if own.height > 1
    ]
    return tuple(one for one in spans if len(one.start) > 1)


def _without_short_pauses(spans: Spans) -> Spans:
    """Return spans with the pauses filled that no profiler makes."""
    if len(spans.start) < 2:
        return spans
    lasting = spans.start[1:] - spans.end[:-1] > SHORTEST_PAUSE
    return Spans(spans.start[np.append(True, lasting)], spans.end[np.append(lasting, True)])


def _iteration_parts(summaries: Sequence[Summary], clocks: Sequence[Clock], objects: Objects) -> pl.DataFrame:
    """Return ITERATION_PART of the iterations that the reports number, on the clock of the trace.

    Candidates are the ranges of each task's main thread whose pattern has no text that comes twice on a thread. Of the
    patterns with several numbers, the one with the longest total time is taken.
    """
    every, totals, repeated = [], [], []
    for r, (summary, clock) in enumerate(zip(summaries, clocks, strict=True)):
        task_of = dict(_tasks_of(summary, objects, r))
        found = summary.numbered
        task = process_of(pl.col("globalTid")).replace_strict(task_of, default=None, return_dtype=pl.Int64)
        every.append(_on_trace_clock(found.ranges.with_columns(task=task).drop_nulls("task"), clock))
        totals.append(found.totals.with_columns(task=task).drop_nulls("task"))
        repeated.append(found.repeated.select("pattern"))
    threads = pl.concat(totals).group_by("task", "globalTid").agg(pl.sum("total"))
    order = threads.sort("task", "total", "globalTid", descending=[False, True, False])
    main = order.unique("task", keep="first", maintain_order=True)
    own = pl.concat(every).join(main, on=["task", "globalTid"], how="semi", maintain_order="left")
    own = own.join(pl.concat(repeated).unique(), on="pattern", how="anti", maintain_order="left")
    own = own.unique(["task", "text"], keep="first")
    counted = own.group_by("pattern").agg(
        total=(pl.col("end") - pl.col("start")).sum(), numbers=pl.col("number").n_unique()
    )
    chosen = counted.filter(pl.col("numbers") > 1).sort("total", "pattern", descending=[True, False]).head(1)
    steps = own.join(chosen, on="pattern", how="semi", maintain_order="left")
    steps = steps.with_columns(stem=numbered_text(pl.col("text")))
    return steps.with_columns(repeat=repeats_of(steps)).select(*ITERATION_PART)


def _repeated_parts(
    repeats: Sequence[ReportRepeats], summaries: Sequence[Summary], clocks: Sequence[Clock], objects: Objects
) -> pl.DataFrame:
    """Return ITERATION_PART of the iterations by work that repeats on all tasks, on the clock of the trace."""
    tasks = [dict(_tasks_of(summary, objects, r)) for r, summary in enumerate(summaries)]
    found = [_of_tasks(one.work, task_of) for one, task_of in zip(repeats, tasks, strict=True)]
    # A task that several reports recorded has its milestones in all of them.
    both = (pl.sum("milestones"), pl.mean("period", "activities"), pl.min("orderly"))
    together = pl.concat(found).group_by("process", "kind", "name", "bytes").agg(both)
    each = tuple(zip(repeats, tasks, strict=True))
    launching = {task_of[p] for one, task_of in each for p in one.processes if p in task_of}
    calling = {task_of[p] for one, task_of in each for p in one.callers if p in task_of}
    milestone = choose_milestone(together, launching, calling)
    if milestone is None:
        return pl.DataFrame(schema=ITERATION_PART)
    own = [
        _on_trace_clock(_of_tasks(one.steps(milestone), task_of), clock)
        for one, task_of, clock in zip(repeats, tasks, clocks, strict=True)
    ]
    # Two reports of one process may have recorded the same steps.
    steps = numbered_steps(pl.concat(own).unique(["process", "start"], maintain_order=True))
    parts = steps.with_columns(task="process", repeat=0, open=pl.lit(False))
    return to_schema(parts, ITERATION_PART)


def _of_tasks(rows: pl.DataFrame, task_of: Mapping[int, int]) -> pl.DataFrame:
    """Return rows with the number of their task for the number of their process; without those of no task."""
    task = pl.col("process").replace_strict(task_of, default=None, return_dtype=pl.Int64)
    return rows.with_columns(task).drop_nulls("process")


def _tasks_of(summary: Summary, objects: Objects, report: int) -> Iterator[tuple[int, int]]:
    """Yield each process of a report with the task that its drawn places belong to, counted from 0."""
    rows = objects.row_of[report]
    drawn = summary.places.filter(pl.col("process").is_not_null() & pl.Series(rows != NO_ROW))
    for process, place in drawn.select("process", "id").rows():
        yield process, int(objects.rows.task[rows[place]]) - 1


def _on_trace_clock(ranges: pl.DataFrame, clock: Clock) -> pl.DataFrame:
    """Return ranges with their times (start, end, first, last) on the clock of the trace; null stays."""
    times = {c: pl.Series(clock.merged(ranges[c].fill_null(0).to_numpy())) for c in ("start", "end", "first", "last")}
    merged = ranges.with_columns(pl.when(pl.col(c).is_not_null()).then(times[c]).alias(c) for c in times)
    # 1 ns may be none on a clock that runs slower.
    return merged.with_columns(end=end_of(), last=end_of("last", "first"))

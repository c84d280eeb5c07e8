"""The plan of a trace: made from the summaries of all reports, it holds all that encoding a window needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.errors import ReportError, UsageError
from nsys2prv.families.mpi.mpi import FAMILY as MPI
from nsys2prv.intervals.spans import Span, Spans
from nsys2prv.model.frames import ANCHOR, NumberedRanges
from nsys2prv.model.interning import STREAM
from nsys2prv.model.limits import Limits
from nsys2prv.model.words import few
from nsys2prv.paraver.header import header
from nsys2prv.paraver.labels import RowNames, row_text
from nsys2prv.paraver.lines import EXACT
from nsys2prv.run.clocks import Alignment, Clock, align
from nsys2prv.run.encoding_windows import spills_of, window_borders
from nsys2prv.run.hosts import Host, find_hosts, unused_hosts
from nsys2prv.run.iterations.steady import Window
from nsys2prv.run.iterations.window_of_interest import (
    DEVICE_WINDOW,
    DrawnTime,
    WantedWindow,
    captures_of,
    window_of_interest,
)
from nsys2prv.run.matching.communicators import Communicators, find_communicators
from nsys2prv.run.merged_samples import edge_samples, sampled_places
from nsys2prv.run.numbering import MAX_TEXTS, Numbering, domain_of, number_labels
from nsys2prv.run.objects import Objects, build_objects
from nsys2prv.run.places import RowDecisions
from nsys2prv.run.report_summary import Summary
from nsys2prv.run.run_lines import run_lines
from nsys2prv.run.run_options import RunOptions
from nsys2prv.run.separate_runs import check_one_run
from nsys2prv.run.tasks import Task, find_tasks, known_ranks, rank_warnings, ranks_by_report
from nsys2prv.run.trace_rows import NO_ROW

NS_A_DAY = 86_400 * 10**9
ADVICE_EMPTY = "check the nsys profile options and that the capture range was reached"


class ChosenTime(NamedTuple):
    """A part of a run's time, `span` (merged ns), to which its reports were cut; and what is taken from the whole run.

    `tasks`, and `decisions` on their rows, are those of its plan; `several_runs`: warnings that the reports are of
    several runs.
    """

    span: Span
    tasks: tuple[Task, ...]
    decisions: RowDecisions
    several_runs: tuple[str, ...]


class Plan(NamedTuple):
    """All that is the same for every window of a trace. Times are merged ns, 0 at the trace's beginning."""

    summaries: tuple[Summary, ...]
    clocks: tuple[Clock, ...]
    alignment: Alignment
    objects: Objects
    numbering: Numbering
    communicators: Communicators
    duration: int
    # First to last device activity; without any, of MPI calls, else of all events.
    active: Span
    # The window of interest.
    window: Window
    # Lines that come from no single report: the window of interest, samples at the edges between reports.
    lines: pl.DataFrame
    # Borders of the windows to encode: each is [b[i], b[i + 1]).
    borders: npt.NDArray[np.int64]
    header: str
    row: str
    warnings: tuple[str, ...]
    # Samples left out because a denser report has the same GPU, by family.
    resampled: Mapping[str, int]
    origin: int
    hosts: tuple[Host, ...]
    # Processes of the run, those without a row too.
    tasks: tuple[Task, ...]
    # Recorded spans of each task that was recorded with pauses.
    captures: tuple[Spans, ...] = ()
    # Warnings that the reports are of several runs, which are among `warnings`.
    several_runs: tuple[str, ...] = ()


def make_plan(
    summaries: Sequence[Summary],
    options: RunOptions,
    limits: Limits,
    chosen: ChosenTime | None = None,
    wanted: WantedWindow = DEVICE_WINDOW,
    public_types: bool = False,
) -> Plan:
    """Plan a trace: clocks, objects, numbers, windows.

    `chosen`: the time to which the reports were cut (None: they are whole); `wanted`: the window of interest;
    `public_types`: number event types as the public tool does.

    Raises ReportError when no report has events, UsageError for reports of several runs, and when nothing is left to
    draw.
    """
    cut = chosen is not None
    empty = _reports_without_events(summaries, cut)
    run = _identify(summaries, options, chosen)
    timed = _set_times(summaries, run, chosen.span if chosen else None)
    objects, clocks, duration = run.objects, timed.clocks, timed.duration
    numbering = number_labels(summaries, public_types)
    active = _active_time(timed.drawn, objects)
    captures = captures_of(timed.drawn, objects, clocks)
    drawn = DrawnTime(timed.drawn, active, duration, captures, cut)
    window = window_of_interest(wanted, summaries, clocks, objects, drawn)
    no_anchors = pl.DataFrame(schema=ANCHOR)
    return Plan(
        # Anchors and residuals have served their purpose: every worker reads the plan.
        summaries=tuple(s._replace(anchors=no_anchors, numbered=NumberedRanges()) for s in summaries),
        clocks=clocks,
        alignment=run.alignment._replace(residuals=run.alignment.residuals.clear()),
        objects=objects,
        numbering=numbering,
        communicators=find_communicators(summaries, run.tasks),
        duration=duration,
        active=active,
        window=window,
        lines=run_lines(objects, numbering, timed.edge_samples, window, duration),
        borders=window_borders(spills_of(summaries, clocks), limits, together=2),
        header=_header(summaries, objects, duration),
        row=row_text(_row_names(objects)),
        warnings=(
            *_warnings_of_run(run, summaries, options, empty),
            *_inexact_in_paraver(duration, numbering),
        ),
        resampled=dict(run.sampled.filter(~pl.col("kept")).group_by("family").agg(pl.col("rows").sum()).rows()),
        origin=timed.origin,
        hosts=tuple(run.hosts),
        tasks=tuple(run.tasks),
        captures=captures,
        several_runs=run.several_runs,
    )


class _Identified(NamedTuple):
    """Hosts, tasks and rows of a run, on aligned clocks. `several_runs`: see ChosenTime.

    `sampled`: see sampled_places.
    """

    hosts: Sequence[Host]
    several_runs: tuple[str, ...]
    alignment: Alignment
    tasks: Sequence[Task]
    objects: Objects
    sampled: pl.DataFrame


def _identify(summaries: Sequence[Summary], options: RunOptions, chosen: ChosenTime | None) -> _Identified:
    """Find the hosts, clocks, tasks and rows of a run. `chosen`: the time to which the reports were cut."""
    hosts = find_hosts([s.identity for s in summaries], [s.name for s in summaries], options.hosts)
    several_runs = chosen.several_runs if chosen else check_one_run(summaries, hosts, insists=bool(options.one_run))
    alignment = align(summaries, hosts, options.align, options.offsets)
    tasks = chosen.tasks if chosen else find_tasks(summaries, alignment.clocks, hosts, options.rank_from)
    objects = build_objects(summaries, hosts, tasks, options.ranks, options.every_thread, chosen and chosen.decisions)
    _check_drawn(objects, chosen is not None, options.every_thread)
    sampled = sampled_places(summaries, alignment.clocks, objects.row_of)
    objects = _without_sparser_samples(objects, sampled.filter(~pl.col("kept")))
    alignment = alignment.with_ranks(ranks_by_report(tasks, len(summaries)))
    return _Identified(hosts, several_runs, alignment, tasks, objects, sampled)


def _warnings_of_run(
    run: _Identified, summaries: Sequence[Summary], options: RunOptions, empty: Sequence[str]
) -> Iterator[str]:
    """Yield the warnings on reports, hosts, clocks and ranks of a run. `empty`: those of reports without events."""
    yield from run.several_runs
    yield from unused_hosts(options.hosts, [s.name for s in summaries])
    yield from run.alignment.warnings
    yield from rank_warnings(run.tasks)
    yield from empty
    yield from _ranks_without_report(summaries, run.hosts, run.objects, options)


class _Timed(NamedTuple):
    """Times of the trace: `origin` is its begin (merged ns), from which all others count.

    `drawn`: see drawn_spans; `edge_samples`: see the function of this name.
    """

    origin: int
    clocks: tuple[Clock, ...]
    drawn: pl.DataFrame
    edge_samples: pl.DataFrame
    duration: int


def _set_times(summaries: Sequence[Summary], run: _Identified, span: Span | None) -> _Timed:
    """Set begin and length of a trace, which are those of a chosen span, if any."""
    drawn = drawn_spans(summaries, run.alignment.clocks, run.objects)
    origin = int(drawn["first"].min()) if span is None else span.start  # type: ignore[arg-type]
    clocks = tuple(c.shifted(origin) for c in run.alignment.clocks)
    drawn = drawn.with_columns(pl.col("first", "last") - origin)
    # A single sample has no length, and an empty window would end before it begins. A chosen span keeps its length,
    # whatever events it holds.
    least = 1 if span is None else span.end - origin
    duration = max(int(drawn["last"].max()), least)  # type: ignore[arg-type]
    # The last samples last one period, but no longer than the trace.
    samples = edge_samples(summaries, clocks, run.sampled)
    samples = samples.with_columns(pl.col("time").clip(upper_bound=duration))
    return _Timed(origin, clocks, drawn, samples, duration)


def _check_drawn(objects: Objects, cut: bool, every_thread: bool) -> None:
    """Refuse an empty trace, of a chosen time (`cut`) or of the whole run. Raises UsageError."""
    if not objects.tasks and cut:
        others = "" if every_thread else ", or --threads all: threads with no more than OS calls have no row otherwise"
        raise UsageError(
            "nothing to draw: the chosen families and ranks have no events within the chosen time; "
            f"choose another --time or --nvtx{others}"
        )
    if not objects.tasks:
        raise UsageError(
            "nothing to draw: the chosen families and ranks have no events in these reports; "
            "`nsys2prv inspect` lists their contents"
        )


def _without_sparser_samples(objects: Objects, left_out: pl.DataFrame) -> Objects:
    """Take the rows from samples (report, place) of a GPU that another report sampled more densely."""
    row_of = list(objects.row_of)
    for (report,), places in left_out.group_by("report"):
        row_of[int(str(report))] = rows = row_of[int(str(report))].copy()
        rows[places["place"].to_numpy()] = NO_ROW
    return objects._replace(row_of=tuple(row_of))


def _reports_without_events(summaries: Sequence[Summary], cut: bool) -> list[str]:
    """Warn of each report without events. `cut`: a part of the time was chosen.

    Raises ReportError when no report has events.
    """
    empty = [s for s in summaries if s.uses.is_empty() and not s.off]
    if cut:
        return [f"{s.path}: no events within the chosen time" for s in empty]
    if len(empty) == len(summaries):
        others = f" (nor in the {len(empty) - 1} others)" if len(empty) > 1 else ""
        raise ReportError(empty[0].path, f"no events in this report{others}", ADVICE_EMPTY)
    return [f"{s.path}: no events in this report; {ADVICE_EMPTY}" for s in empty]


def _ranks_without_report(
    summaries: Sequence[Summary], hosts: Sequence[Host], objects: Objects, options: RunOptions
) -> Iterator[str]:
    """Warn of chosen ranks without a report."""
    if options.ranks is None:
        return
    known = known_ranks(summaries, hosts, options.rank_from) | objects.known
    if lacking := sorted(options.ranks - known):
        yield f"--ranks: no report is of rank {few([str(rank) for rank in lacking])}"


def _inexact_in_paraver(duration: int, numbering: Numbering) -> Iterator[str]:
    """Warn of values that are less exact in the trace than in the reports."""
    if duration > EXACT:
        days = duration / NS_A_DAY
        yield (
            f"the trace lasts {days:,.0f} days: Paraver rounds times beyond 2**53 ns (104 days); "
            "if a report has a wrong time, choose the others with --time"
        )
    labels = {event_type.number: event_type.label for event_type in numbering.pcf}
    # The first type of each domain has the ranges on the host. The device's ranges have no further texts.
    of_domain = {domain_of(key): key for key in reversed(list(numbering.number_type))}
    for key in reversed(list(of_domain.values())):
        yield (
            f"{labels[numbering.types[key]]} has more than {MAX_TEXTS:,} texts: they are labelled by pattern, with the "
            "last number in each as a further event type"
        )


def drawn_spans(summaries: Sequence[Summary], clocks: Sequence[Clock], objects: Objects) -> pl.DataFrame:
    """List the use of each drawn place by each family: report, family, row, rows, first, last (merged ns)."""
    parts = []
    for r, (summary, clock) in enumerate(zip(summaries, clocks, strict=True)):
        row = pl.Series("row", objects.row_of[r][summary.uses["place"].to_numpy()])
        merged = summary.uses.with_columns(
            row,
            pl.lit(r, pl.Int64).alias("report"),
            first=pl.Series(clock.merged(summary.uses["first"].to_numpy())),
            last=pl.Series(clock.merged(summary.uses["last"].to_numpy())),
        )
        parts.append(merged.filter(pl.col("row") != NO_ROW))
    return pl.concat(parts)


def _active_time(drawn: pl.DataFrame, objects: Objects) -> Span:
    """Return the time of all device activity; without any, of MPI calls; else of all events."""
    on_stream = drawn.filter(pl.Series([objects.rows.kind[r] == STREAM for r in drawn["row"]], dtype=pl.Boolean))
    mpi = drawn.filter(pl.col("family") == MPI.name)
    chosen = next(part for part in (on_stream, mpi, drawn) if part.height)
    low, high = chosen.select(pl.col("first").min(), pl.col("last").max()).row(0)
    return Span(int(low), max(int(high), int(low) + 1))


def _header(summaries: Sequence[Summary], objects: Objects, duration: int) -> str:
    starts = [e for s in summaries if (e := s.identity.utc_epoch_ns) is not None]
    return header(min(starts, default=0), duration, objects.cpus, objects.task_threads, objects.task_node)


def _row_names(objects: Objects) -> RowNames:
    """Return the names of the ROW file: CPUs, nodes, application, tasks, rows."""
    cpus = [f"{node}.{n}" for node, count in zip(objects.nodes, objects.cpus, strict=True) for n in range(1, count + 1)]
    return RowNames(cpus, objects.nodes, objects.application, objects.tasks, objects.rows.label)

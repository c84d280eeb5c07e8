"""The whole way: reports in, one trace out."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nsys2prv.commands.result import Counts, Translation, Used, counts, result_of
from nsys2prv.errors import LostWorkerError, Nsys2prvError, ReportError, UsageError
from nsys2prv.families.selection import Selection
from nsys2prv.intervals.classes import Rules, load_rules
from nsys2prv.model.event_types import NVTX_DOMAIN, NVTX_RANGE, TENSOR_ESTIMATE
from nsys2prv.model.metric_names import TENSOR
from nsys2prv.pipeline.encode.bundles import merge_reports
from nsys2prv.pipeline.encode.encode import Encoded
from nsys2prv.pipeline.extract.extract import extract
from nsys2prv.pipeline.extract.parts import divided, summary_of_parts, tasks_of
from nsys2prv.pipeline.extract.task import ExtractTask
from nsys2prv.pipeline.match.match import Matched, match, partition_borders
from nsys2prv.pipeline.match.sequences import continue_sequences
from nsys2prv.pipeline.store.points import Span
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.workers.maps import Map
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.pipeline.workers.progress import Progress
from nsys2prv.pipeline.workers.resources import (
    check_space,
    check_temporary,
    folder_size,
    input_size,
    peak_memory,
    within_memory,
)
from nsys2prv.pipeline.workers.workers import processes, workers
from nsys2prv.pipeline.write.body import write_windows
from nsys2prv.pipeline.write.comments import comment_text
from nsys2prv.pipeline.write.files import Target, end_member, open_body, publish, scratch
from nsys2prv.pipeline.write.redact import Redaction
from nsys2prv.pipeline.write.trace_output import TraceOutput
from nsys2prv.report.discover import find_reports
from nsys2prv.run.forecast import check_size, forecast, trace_size
from nsys2prv.run.matching.match_keys import Keys
from nsys2prv.run.matching.messages import Findings
from nsys2prv.run.options import RunOptions
from nsys2prv.run.plan import Plan, Whole, make_plan, with_estimates
from nsys2prv.run.report_summary import Spill, Summary
from nsys2prv.run.saved_plan import plan_at, save_plan

# Parts of the names of the GPU metrics that are estimated for classes of kernels.
ESTIMATED = (TENSOR,)
# Points of a run that one process works on stay in memory where its reports are smaller than this (bytes, as SQLite;
# points take two thirds of that): writing and reading them takes a tenth of it.
HELD_INPUT = 160_000_000
# NVTX ranges that are named where there is none of the name that was chosen.
MOST_TOLD = 12


class _Means(NamedTuple):
    """What a translation works with."""

    # Where intermediate files go; where the trace is made, on the disk of its place.
    folder: Path
    beside: Path
    map: Map[Any, Any]
    # Workers, as far as that is known: more than one of Dask's.
    jobs: int
    # Whether points stay in memory: this process encodes them, too.
    hold: bool
    # Families of each report, as parts that are extracted apart.
    parts: dict[Path, list[list[str]]]
    # Bytes that all processes here may take.
    memory: int | None
    # When workers were first called for.
    started: float


@dataclass
class _Run:
    """One translation under way."""

    paths: list[Path]
    selection: Selection
    options: RunOptions
    keep_going: bool
    progress: Progress
    means: _Means
    rules: Rules | None
    # Reports that are left out.
    failed: list[ReportError]
    # The time that was chosen, ns of the whole run.
    chosen: tuple[int, int] | None = None
    # What each stage took.
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, since: float | None = None) -> Iterator[None]:
        """Time what is done within; `since`: with what was done from then on."""
        started = time.perf_counter() if since is None else since
        yield
        self.seconds[name] = time.perf_counter() - started

    def planned(self) -> tuple[Plan, Findings]:
        """The plan of the chosen part of the run, with messages and estimates, and what matching found."""
        with self.stage("extract", self.means.started):
            span, spans, whole = self.span()
            summaries = self.summaries(spans)
        with self.stage("plan"):
            plan = on_polars_thread(make_plan)(summaries, self.options, span, whole)
        with self.stage("match"):
            plan, findings = self.matched(plan)
        if self.estimates:
            with self.stage("estimate"):
                plan = self.estimated(plan)
        return plan, findings

    def summaries(self, span: Sequence[Span | None], ranges: tuple[str, ...] = (), look: bool = False) -> list[Summary]:
        """Extract every report; one that cannot be read stops the run, or is named and left out.

        `look`: their points are not wanted.
        """
        anchors = self.options.fits_clocks and len(self.paths) > 1
        tasks: list[ExtractTask] = []
        for n, (path, s) in enumerate(zip(self.paths, span, strict=True)):
            tasks += tasks_of(self._task(path, f"{n:05}", s, ranges, anchors), self.means.parts[path])
        # The largest first: one that came last would be worked on alone.
        tasks.sort(key=lambda task: input_size([task.path]), reverse=True)
        if look:
            tasks = [task._replace(folder=None, scratch=self.means.folder) for task in tasks]
        attempts = self.progress.track("reading reports", try_all(self.means.map, tasks), len(tasks))
        done: dict[Path, list[Summary]] = {}
        failed: dict[Path, ReportError] = {}
        for task, result in zip(tasks, attempts, strict=True):
            if isinstance(result, Summary):
                done.setdefault(task.path, []).append(result)
            elif self.keep_going:
                failed.setdefault(task.path, result)
            else:
                raise result
        self.failed += [failed[path] for path in self.paths if path in failed]
        self.paths = [path for path in self.paths if path not in failed]
        found = [summary_of_parts(done[path]) for path in self.paths]
        if not found:
            raise Nsys2prvError(
                "none of the reports can be read; give others, or mend these: " + "; ".join(map(str, self.failed))
            )
        return found

    def _task(self, path: Path, name: str, span: Span | None, ranges: tuple[str, ...], anchors: bool) -> ExtractTask:
        families, estimates = self.selection.families, self.estimates
        metrics = ESTIMATED if estimates else ()
        return ExtractTask(
            path,
            families,
            self.means.folder,
            name,
            span,
            ranges,
            self.rules,
            anchors,
            metrics=metrics,
            estimates=estimates,
            less=self.selection.reduction,
            hold=self.means.hold,
        )

    @property
    def estimates(self) -> bool:
        """Whether kernels are to have estimates."""
        return TENSOR_ESTIMATE.key in self.selection.families

    def estimated(self, plan: Plan) -> Plan:
        """The plan with estimates."""
        # Loaded when needed: a translation does without the analysis.
        from nsys2prv.analysis.estimates import estimate

        return with_estimates(
            plan, estimate(plan, self.options.hosts, self.means.memory, self.selection.reduction.min_duration)
        )

    def span(self) -> tuple[tuple[int, int] | None, list[Span | None], Whole | None]:
        """The chosen span on the merged time line, and on each report's clock, and what the whole run tells.

        They are known after a look at all of it; None where all of it was chosen.
        """
        chosen = self.selection
        if chosen.time is None and chosen.nvtx is None:
            return None, [None] * len(self.paths), None
        looked = self.summaries([None] * len(self.paths), (chosen.nvtx,) if chosen.nvtx else (), look=True)
        plan = on_polars_thread(make_plan)(looked, self.options)
        low, high = chosen_span(plan, chosen)
        self.chosen = low, high
        spans: list[Span | None] = [Span(c.local_one(low), c.local_one(high)) for c in plan.clocks]
        return (low + plan.origin, high + plan.origin), spans, Whole(plan.tasks, plan.objects.users)

    def matched(self, plan: Plan) -> tuple[Plan, Findings]:
        """The plan with the messages between ranks, and what matching found."""
        plan = continue_sequences(plan, self.means.folder)
        borders = partition_borders(plan)
        findings = Findings()
        spills: list[Spill] = []
        numbers = range(len(borders) - 1)
        if len(numbers) > 1:
            saved = self.means.folder / "to-match"
            save_plan(plan, saved)
            results = self.means.map(partial(_match_part, saved, borders), numbers)
        else:
            results = map(partial(match, plan, borders, self.means.folder), numbers)
        for result in self.progress.track("matching ranks", results, len(numbers)):
            findings.add(result.findings)
            spills += result.spills
        return plan._replace(matched=tuple(spills)), findings


def stay_in_memory(paths: Sequence[Path], jobs: int, dask: str | None) -> bool:
    """Whether points of these reports do."""
    return jobs == 1 and dask is None and input_size(paths) < HELD_INPUT


def _match_part(saved: Path, borders: Keys, number: int) -> Matched:
    return match(plan_at(saved), borders, saved.parent, number)


def try_extract(task: ExtractTask) -> Summary | ReportError:
    """Extract, or say why not."""
    try:
        return extract(task)
    except ReportError as error:
        return error


def try_all(
    mapped: Map[ExtractTask, Summary | ReportError], tasks: Sequence[ExtractTask]
) -> Iterator[Summary | ReportError]:
    """Extract each, or say why not. Raises LostWorkerError, which names the reports that were being read."""
    try:
        yield from mapped(try_extract, tasks)
    except LostWorkerError as lost:
        names = " or ".join(dict.fromkeys(str(task.path) for task in lost.items))
        if not names:
            raise
        cause = "a worker was killed over it, perhaps for lack of memory"
        raise LostWorkerError(f"{names}: {cause}; use fewer --jobs") from None


def chosen_span(plan: Plan, chosen: Selection) -> tuple[int, int]:
    """Begin and end (merged ns) of the time that is chosen, by time or by an NVTX range. Raises UsageError."""
    low, high = 0, plan.duration
    if chosen.nvtx is not None:
        spans = [
            (clock.merged_one(s.spans[chosen.nvtx][0]), clock.merged_one(s.spans[chosen.nvtx][1]))
            for s, clock in zip(plan.summaries, plan.clocks, strict=True)
            if chosen.nvtx in s.spans
        ]
        if not spans and (named := _some_ranges(plan)):
            raise UsageError(f"no report has an NVTX range {chosen.nvtx!r}; some of those there are: {named}")
        if not spans:
            raise UsageError(f"no report has an NVTX range {chosen.nvtx!r}; `nsys2prv analyze` lists those there are")
        low, high = min(a for a, _ in spans), max(b for _, b in spans)
    if chosen.time is not None:
        start, end = chosen.time
        low, high = max(low, low if start is None else start), min(high, high if end is None else end)
    if high <= low:
        raise UsageError(f"the chosen time holds nothing of the run; choose one within its {plan.duration} ns")
    return low, high


def _some_ranges(plan: Plan) -> str:
    """Names of ranges, one of those that differ in numbers only; none where ranges were not asked for."""
    kinds = (NVTX_DOMAIN.of(""), NVTX_RANGE.key)
    texts = {text for s in plan.summaries for key in s.labels if key.startswith(kinds) for text in s.labels[key]}
    lines = sorted({" ".join(text.split()) for text in texts} - {""}, reverse=True)
    some = {re.sub(r"\d+", "#", text): text for text in lines}
    return ", ".join(sorted(some.values())[:MOST_TOLD])


def translate(
    inputs: Iterable[Path | str] | Path | str,
    output: Path | str,
    *,
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
    writing: TraceOutput = TraceOutput(),
    force: bool = False,
    dry_run: bool = False,
) -> Translation:
    """Translate the reports of one run into one trace: `output`.prv (or .prv.gz), .pcf and .row, and .align.json.

    `inputs` are files and folders; a folder means every report below it. `selection`: the part of the run that is
    translated; `options`: how the reports become one run; `execution`: how the work is done; `writing`: how the trace
    is written. `force`: write over an existing trace; `dry_run`: only return the sizes of what would be written.
    Raises Nsys2prvError; then nothing is left where the output should be.
    """
    # Dask workers have a current folder of their own.
    target = Target.of(Path(output).absolute() if execution.dask else output, writing.compress)
    target.check(force or dry_run)
    failed: list[ReportError] = []
    found = find_reports(inputs, execution.nsys, failed if execution.keep_going else None)
    paths = [path.absolute() if execution.dask else path for path in found]
    rules = load_rules(selection.classes) if selection.classes else None
    with _means(paths, selection, target, execution) as means:
        run = _Run(paths, selection, options, execution.keep_going, Progress(execution.quiet), means, rules, failed)
        plan, findings = run.planned()
        sizes, temporary = forecast(plan), folder_size(run.means.folder)
        redaction = Redaction.of(plan, run.failed) if writing.redact else None
        written: list[Encoded] = []
        if dry_run:
            told = counts(plan, written, findings)
        else:
            size = check_size(sizes, target.compress, writing.max_size)
            check_space(target.stem.parent, size, "the trace would take about")
            with run.stage("encode"):
                body = run.means.beside / target.prv.name
                written, told = _write(plan, body, run, findings, redaction, trace_size(sizes, compress=False))
                publish(target, body, _texts(plan, target, redaction), stale=[target.other])
        used = Used(temporary, peak_memory())
    made = None if dry_run else target.prv
    return result_of(plan, made, written, told, run.seconds, sizes, run.failed, findings, used, redaction)


@contextmanager
def _means(paths: Sequence[Path], chosen: Selection, target: Target, execution: Execution) -> Iterator[_Means]:
    """Workers for these reports, and folders, which are gone afterwards. Raises Nsys2prvError."""
    jobs, dask, memory, spill_dir = execution.jobs, execution.dask, execution.memory, execution.spill_dir
    count = within_memory(processes(input_size(paths), len(paths), jobs), memory)
    several = count if dask is None else max(count, 2)
    parts = divided(paths, chosen.families, 1 if TENSOR_ESTIMATE.key in chosen.families else several)
    hold, started = stay_in_memory(paths, count, dask), time.perf_counter()
    with ExitStack() as stack:
        beside = stack.enter_context(scratch(target.stem))
        # Apart from what lies beside the output, which may be the same folder.
        folder = stack.enter_context(scratch(spill_dir / f"{target.stem.name}.spill")) if spill_dir else beside
        mapped = stack.enter_context(workers(jobs if dask else count, dask, sum(map(len, parts.values()))))
        check_temporary(folder, paths, chosen)
        yield _Means(folder, beside, mapped, several, hold, parts, memory, started)


def _texts(plan: Plan, target: Target, redaction: Redaction | None) -> dict[Path, str]:
    """The files beside the body."""
    pcf, row, clocks = plan.pcf, plan.row, plan.alignment.to_json()
    if redaction is not None:
        pcf, row, clocks = redaction.text(pcf), redaction.text(row), redaction.values(clocks)
    return {target.pcf: pcf, target.row: row, target.alignment: json.dumps(clocks, indent=2) + "\n"}


def _write(
    plan: Plan, body: Path, run: _Run, findings: Findings, redaction: Redaction | None, size: int
) -> tuple[list[Encoded], Counts]:
    """Header, windows in order, and comments of what they lack. `size`: bytes of the trace, about, not compressed."""
    plan, counted = merge_reports(plan, run.means.folder, run.means.map, run.means.jobs, size, run.progress)
    with open_body(body, body.suffix == ".gz") as sink:
        sink.write(plan.header.encode())
        end_member(sink)
        windows = write_windows(plan, sink, run.means.folder, run.means.map, run.means.jobs)
        written = list(run.progress.track("writing", windows, len(plan.borders) - 1))
        told = counts(plan, [*counted, *written], findings)
        end_member(sink)
        comments = comment_text(plan, run.selection, run.options, run.chosen, told.dropped, told.off, run.failed)
        sink.write((redaction.values(comments) if redaction else comments).encode())
    return written, told

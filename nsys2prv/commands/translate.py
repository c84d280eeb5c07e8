"""Translation of the reports of one run into one trace."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nsys2prv.commands.extraction import (
    Extracted,
    anchors_for,
    as_named,
    chosen_span,
    estimates_tensor,
    extract_reports,
    families_to_draw,
    fits_in_memory,
)
from nsys2prv.commands.profiles import read_profiles
from nsys2prv.commands.result import Counts, Translation, Used, Written, counts, result_of
from nsys2prv.commands.side_files import side_files
from nsys2prv.errors import ReportError
from nsys2prv.families.device.correlation import FAMILY as CORRELATION
from nsys2prv.families.explanation import EXPLAINED
from nsys2prv.families.selection import Selection
from nsys2prv.families.waiting import FAMILY as WAITING
from nsys2prv.intervals.classes import Rules, load_rules
from nsys2prv.model.event_types import KERNEL_FULL_NAME
from nsys2prv.model.metric_names import CLOCK, TENSOR
from nsys2prv.pipeline.encode.bundles import merge_reports
from nsys2prv.pipeline.encode.encoding_input import EncodingInput
from nsys2prv.pipeline.extract.launched_work import wanted_window
from nsys2prv.pipeline.extract.parts import divided, tasks_of
from nsys2prv.pipeline.extract.task import Drawing, ExtractTask, Storage, Wanted
from nsys2prv.pipeline.match.match import match_run
from nsys2prv.pipeline.store.points import Span
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.pipeline.workers.progress import Progress
from nsys2prv.pipeline.workers.resources import (
    INTERVAL_BYTES,
    POINTS_BYTES,
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
from nsys2prv.report.discover import find_reports, listed
from nsys2prv.run.forecast import check_size, forecast, trace_size
from nsys2prv.run.options import RunOptions
from nsys2prv.run.plan import Plan, Whole, make_plan
from nsys2prv.run.steady import NAMED_WINDOWS

if TYPE_CHECKING:
    from nsys2prv.commands.whole_run import WholeRun
    from nsys2prv.report.ncu.profile import Profile

# Parts of the names of the GPU metrics that estimates by class of kernels use.
ESTIMATED = (TENSOR, CLOCK)


class _Means(NamedTuple):
    """Means of a translation.

    `beside`: a folder on the disk of the output, where the trace is made. `in_memory`: points stay there. `parts`:
    families of each report, as parts that are extracted apart. `memory`: bytes that all processes may take. `started`:
    when workers were first called for.
    """

    workers: Workers
    beside: Path
    in_memory: bool
    parts: dict[Path, list[list[str]]]
    memory: int | None
    started: float


@dataclass
class _Translation:
    """One translation under way."""

    selection: Selection
    options: RunOptions
    keep_going: bool
    writing: TraceOutput
    means: _Means
    rules: Rules | None
    # Reports that were left out.
    failed: list[ReportError]
    # True if kernels get estimates of tensor activity.
    estimated: bool
    # The options as they were given, for the trace's comments.
    asked: RunOptions
    # Files of Nsight Compute.
    profiles: Sequence[Profile]
    # The chosen time, ns of the whole run.
    chosen: tuple[int, int] | None = None
    # Duration of each stage.
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, since: float | None = None) -> Iterator[None]:
        """Time a stage, from `since` on if that is given."""
        started = time.perf_counter() if since is None else since
        yield
        self.seconds[name] = time.perf_counter() - started

    def encoding_input(self, paths: list[Path]) -> EncodingInput:
        """Extract, plan and match the chosen part of a run, and make the estimates that it needs."""
        limits = self.means.workers.limits
        with self.stage("extract", self.means.started):
            if self.selection.time is None and self.selection.nvtx is None:
                span, whole = None, None
                extracted = self._extract_whole(paths)
            else:
                looked = self._look(paths)
                plan = on_polars_thread(make_plan)(looked.summaries, self.options, limits)
                low, high = self.chosen = chosen_span(plan, self.selection)
                spans = [Span(c.local_one(low), c.local_one(high)) for c in plan.clocks]
                span, whole = (low + plan.origin, high + plan.origin), Whole(plan.tasks, plan.objects.decided)
                extracted = self._extract(looked.paths, spans)
        figures = wanted_window(self.writing.window, self.means.workers)
        with self.stage("plan"):
            plan = on_polars_thread(make_plan)(
                extracted.summaries, self.options, limits, span, whole, figures, self.writing.public_types
            )
        with self.stage("match"):
            matches = match_run(plan, self.means.workers, WAITING.name in self.selection.families)
        given = EncodingInput(plan, matches)
        if self.estimated:
            with self.stage("estimate"):
                given = given._replace(estimates=self.whole(plan).estimates(self.selection.reduction.min_duration))
        if self._explains:
            with self.stage("explain"):
                given = given._replace(explained=self.whole(plan).explained(self.selection.families))
        if self.profiles:
            with self.stage("ncu"):
                profiled = self.whole(plan).profiled(self.selection.reduction.min_duration)
                given = given._replace(explained=(*given.explained, profiled))
        return given

    def _look(self, paths: Sequence[Path]) -> Extracted:
        """Look at whole reports for their clocks and the chosen range, storing nothing."""
        ranges = (self.selection.nvtx,) if self.selection.nvtx else ()
        wanted = Wanted(anchors=anchors_for(self.options, len(paths)), ranges=ranges)
        return self._extract_whole(paths, wanted, Storage("", scratch=self.means.workers.folder))

    def _extract_whole(
        self, paths: Sequence[Path], wanted: Wanted | None = None, storage: Storage | None = None
    ) -> Extracted:
        """Extract whole reports, with more families if they have nothing of the default ones."""
        extracted = self._extract(paths, [None] * len(paths), wanted, storage)
        families = families_to_draw(self.selection.families, extracted.summaries)
        if families == self.selection.families:
            return extracted
        self.selection = replace(self.selection, families=families)
        self.means = self.means._replace(parts={path: [list(families)] for path in paths})
        return self._extract(extracted.paths, [None] * len(extracted.paths), wanted, storage)

    def _extract(
        self,
        paths: Sequence[Path],
        spans: Sequence[Span | None],
        wanted: Wanted | None = None,
        storage: Storage | None = None,
    ) -> Extracted:
        """Extract reports, each within its span."""
        stored = storage or Storage("", self.means.workers.folder, in_memory=self.means.in_memory)
        asked = wanted or Wanted(
            analyzed=self._analyzed(),
            orders=self.writing.summary or self._explains,
            metrics=ESTIMATED if self.estimated else (),
            anchors=anchors_for(self.options, len(paths)),
            ranges=() if self.writing.window in NAMED_WINDOWS else (self.writing.window,),
            attributes=(KERNEL_FULL_NAME.key,) if self.profiles else (),
            beyond=bool(self.profiles),
        )
        reports = []
        for n, (path, span) in enumerate(zip(paths, spans, strict=True)):
            task = ExtractTask(
                path,
                self.selection.families,
                stored.named(f"{n:05}"),
                asked,
                Drawing(span, self.selection.reduction, self.rules, self.writing.public_types),
                limits=self.means.workers.limits,
            )
            reports.append(tasks_of(task, self.means.parts[path]))
        extracted = extract_reports(reports, self.means.workers, self.keep_going)
        self.failed += extracted.failed
        return extracted

    def _analyzed(self) -> tuple[str, ...]:
        """Return the families that analysis or estimates read."""
        whole = self.writing.summary or self._explains
        if not whole and not self.profiles and not self.estimated:
            return ()
        from nsys2prv.analysis.frames_of_run import GATHERED, KINDS

        read = GATHERED if whole else (*KINDS, CORRELATION.name) if self.profiles else tuple(KINDS)
        return tuple(family for family in self.selection.families if family in read)

    @property
    def _explains(self) -> bool:
        """True if events are wanted that need the dependency graph."""
        return any(family in self.selection.families for family in EXPLAINED)

    def whole(self, plan: Plan) -> WholeRun:
        """Return all of the run at once."""
        # Loaded when needed: most translations do without the analysis.
        from nsys2prv.commands.whole_run import WholeRun

        cut, means = self.chosen is not None, self.means
        return WholeRun(plan, self.options.hosts, self.failed, cut, means.memory, means.workers, self.profiles)


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
    is written. `force`: write over an existing trace; `dry_run`: write nothing, and return the forecast sizes.
    With `writing.summary` the run is also analyzed. Raises Nsys2prvError; then nothing is left where the
    output should be.
    """
    # Dask workers have a current folder of their own.
    target = Target.of(Path(output).absolute() if execution.dask else output, writing.compress)
    target.check(force or dry_run)
    profiles = read_profiles(options)
    failed: list[ReportError] = []
    named = listed(inputs)
    found = find_reports(named, execution.nsys, failed if execution.keep_going else None)
    paths = [path.absolute() if execution.dask else path for path in found]
    rules = load_rules(selection.classes) if selection.classes else None
    kept_whole = writing.summary or bool(profiles) or any(family in selection.families for family in EXPLAINED)
    row_bytes = POINTS_BYTES + (INTERVAL_BYTES if kept_whole else 0)
    with _means(paths, selection, target, execution, row_bytes) as means:
        run = _Translation(
            selection,
            as_named(options, named),
            execution.keep_going,
            writing,
            means,
            rules,
            failed,
            estimates_tensor(paths, selection.families),
            asked=options,
            profiles=profiles,
        )
        given = run.encoding_input(paths)
        if writing.summary:
            run.whole(given.plan).check()
        matched = (*given.matches.messages, *given.of_the_run)
        sizes = forecast(given.plan, matched, given.estimates.kernels if given.estimates else 0)
        temporary = folder_size(means.workers.folder)
        redaction = Redaction.of(given.plan, run.failed) if writing.redact else None
        written = Written(None, 0, sizes)
        if dry_run:
            told = counts(given, [])
        else:
            size = check_size(sizes, target.compress, writing.max_size)
            check_space(target.stem.parent, size, "the trace would take about")
            with run.stage("encode"):
                body = means.beside / target.prv.name
                lines, told = _write(given, body, run, redaction, trace_size(sizes, compress=False))
                texts = side_files(given, target, redaction)
            written = Written(target.prv, lines, sizes)
        analysis = None
        if writing.summary:
            with run.stage("analyze"):
                analysis = run.whole(given.plan).analysis(writing.window)
        if not dry_run:
            # Last: a run that cannot be analyzed leaves no trace.
            publish(target, body, texts, stale=[target.other])
        used = Used(temporary, peak_memory())
    result = result_of(given, told, written, used, run.seconds, run.failed)
    return result._replace(removed=dict(redaction.removed) if redaction else None, analysis=analysis)


@contextmanager
def _means(
    paths: Sequence[Path], chosen: Selection, target: Target, how: Execution, row_bytes: int
) -> Iterator[_Means]:
    """Start workers for reports, and make temporary folders. Raises Nsys2prvError.

    `row_bytes`: bytes of temporary files that a row takes at least.
    """
    limits = how.limits
    count = within_memory(processes(input_size(paths), len(paths), how.jobs, limits), how.memory, limits)
    several = count if how.dask is None else max(count, 2)
    parts = divided(paths, chosen.families, several, limits)
    in_memory, started = fits_in_memory(paths, count, how.dask, limits), time.perf_counter()
    with ExitStack() as stack:
        beside = folder = stack.enter_context(scratch(target.stem, alone=True))
        if how.spill_dir:
            # Apart from the folder beside the output, which may be the same.
            folder = stack.enter_context(scratch(how.spill_dir / f"{target.stem.name}.spill"))
        jobs = how.jobs if how.dask else count
        mapped = stack.enter_context(workers(jobs, how.dask, sum(map(len, parts.values()))))
        check_temporary(folder, paths, chosen, row_bytes)
        yield _Means(
            Workers(mapped, several, folder, limits, Progress(how.quiet)), beside, in_memory, parts, how.memory, started
        )


def _write(
    given: EncodingInput, body: Path, run: _Translation, redaction: Redaction | None, size: int
) -> tuple[int, Counts]:
    """Write header, windows in order, and comments; return lines and counts.

    `size`: bytes of the trace, about, not compressed.
    """
    team, plan = run.means.workers, given.plan
    bundles, counted = merge_reports(given, team, size)
    given = given._replace(bundles=bundles)
    with open_body(body, team.limits.member_lines if body.suffix == ".gz" else None) as sink:
        sink.write(plan.header.encode())
        end_member(sink)
        windows = write_windows(given, sink, team)
        written = list(team.progress.track("writing", windows, len(given.windows)))
        told = counts(given, [*counted, *written])
        end_member(sink)
        asked, public = run.asked, run.writing.public_types
        comments = comment_text(plan, run.selection, asked, public, run.chosen, told.dropped, told.off, run.failed)
        sink.write((redaction.values(comments) if redaction else comments).encode())
    return sum(window.lines for window in written), told

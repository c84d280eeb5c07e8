"""The stages of one translation up to what encoding needs: extract, plan, match, estimate, explain."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nsys2prv.commands.extraction import Extracted, extract_reports
from nsys2prv.commands.extraction_extent import anchors_for, chosen_span, families_to_draw
from nsys2prv.errors import ReportError
from nsys2prv.families.device.correlation import FAMILY as CORRELATION
from nsys2prv.families.selection import Selection
from nsys2prv.families.whole_run import EXPLANATION_FAMILIES, WAITING_FAMILY
from nsys2prv.intervals.classes import Rules
from nsys2prv.intervals.spans import Span
from nsys2prv.model.event_types import KERNEL_FULL_NAME
from nsys2prv.model.metric_names import CLOCK, TENSOR
from nsys2prv.pipeline.encode.encoding_input import EncodingInput
from nsys2prv.pipeline.extract.parts import parts_of
from nsys2prv.pipeline.extract.report_part import Drawing, ReportPart, Storage, Wanted
from nsys2prv.pipeline.match.match import match_run
from nsys2prv.pipeline.report_repeats import wanted_window
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.pipeline.write.trace_output import TraceOutput
from nsys2prv.run.iterations.steady import BUILT_IN_WINDOWS
from nsys2prv.run.plan import ChosenTime, Plan, make_plan
from nsys2prv.run.run_options import RunOptions

if TYPE_CHECKING:
    from nsys2prv.commands.whole_run import WholeRun
    from nsys2prv.report.ncu.profile import Profile

# Parts of the names of the GPU metrics that estimates by class of kernels use.
ESTIMATED = (TENSOR, CLOCK)


class TranslationResources(NamedTuple):
    """Resources of a translation: workers, folders and memory.

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


class TranslationRequest(NamedTuple):
    """The request for a translation, beside the families and the time (see Stages.selection).

    `paths`: reports of the run. `options`: those of the run that was found; `given`: as they were given, for the
    trace's comments. `rules`: of kernel classes. `profiles`: files of Nsight Compute. `keep_going`: leave out reports
    that cannot be read. `estimated`: kernels get estimates of tensor activity.
    """

    paths: Sequence[Path]
    options: RunOptions
    given: RunOptions
    writing: TraceOutput
    rules: Rules | None
    profiles: Sequence[Profile]
    keep_going: bool
    estimated: bool


@dataclass
class Stages:
    """One translation under way."""

    request: TranslationRequest
    resources: TranslationResources
    # The families and the time to draw; it grows where reports have nothing of the default families.
    selection: Selection
    # Reports that were left out.
    failed: list[ReportError]
    # The chosen time, ns of the whole run, and the plan of that run.
    chosen_ns: Span | None = None
    whole_plan: Plan | None = None
    # Duration of each stage.
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def workers(self) -> Workers:
        """Return the workers of all stages."""
        return self.resources.workers

    @contextmanager
    def stage(self, name: str, since: float | None = None) -> Iterator[None]:
        """Time a stage, from `since` on if that is given."""
        started = time.perf_counter() if since is None else since
        yield
        self.seconds[name] = time.perf_counter() - started

    def encoding_input(self) -> EncodingInput:
        """Extract, plan and match the chosen part of a run, and make the estimates that it needs."""
        with self.stage("extract", self.resources.started):
            if self.selection.chooses_time:
                extracted, chosen = self._extract_chosen()
            else:
                extracted, chosen = self._extract_whole(), None
        window = wanted_window(self.request.writing.window, self.workers)
        with self.stage("plan"):
            plan = on_polars_thread(make_plan)(
                extracted.summaries,
                self.request.options,
                self.workers.limits,
                chosen=chosen,
                wanted=window,
                public_types=self.request.writing.public_types,
            )
        with self.stage("match"):
            matches = match_run(plan, self.workers, WAITING_FAMILY.name in self.selection.families)
        encoding = EncodingInput(plan, matches)
        if self.request.estimated:
            with self.stage("estimate"):
                encoding = encoding._replace(
                    estimates=self.whole_run(plan).estimates(self.selection.reduction.min_duration)
                )
        if self._explains:
            with self.stage("explain"):
                encoding = encoding._replace(run_events=self.whole_run(plan).explained(self.selection.families))
        if self.request.profiles:
            with self.stage("ncu"):
                profiled = self.whole_run(plan).profiled(self.selection.reduction.min_duration)
                encoding = encoding._replace(run_events=(*encoding.run_events, profiled))
        return encoding

    def _extract_chosen(self) -> tuple[Extracted, ChosenTime]:
        """Extract the chosen time of reports, which is known once the whole run is planned."""
        looked, limits = self._look(), self.workers.limits
        self.whole_plan = plan = on_polars_thread(make_plan)(looked.summaries, self.request.options, limits)
        self.chosen_ns = low, high = chosen_span(plan, self.selection)
        extracted = self._extract(looked.paths, [Span(c.local_one(low), c.local_one(high)) for c in plan.clocks])
        span = Span(low + plan.origin, high + plan.origin)
        return extracted, ChosenTime(span, plan.tasks, plan.objects.decisions, plan.several_runs)

    def _look(self) -> Extracted:
        """Look at whole reports for their clocks and the chosen range, storing nothing."""
        anchors = anchors_for(self.request.options, len(self.request.paths))
        wanted = Wanted(anchors=anchors, named_range=self.selection.nvtx)
        return self._extract_whole(wanted, Storage("", scratch=self.workers.folder))

    def _extract_whole(self, wanted: Wanted | None = None, storage: Storage | None = None) -> Extracted:
        """Extract whole reports, with more families if they have nothing of the default ones."""
        paths = self.request.paths
        extracted = self._extract(paths, [None] * len(paths), wanted, storage)
        families = families_to_draw(self.selection.families, extracted.summaries)
        if families == self.selection.families:
            return extracted
        self.selection = replace(self.selection, families=families)
        self.resources = self.resources._replace(parts={path: [list(families)] for path in paths})
        return self._extract(extracted.paths, [None] * len(extracted.paths), wanted, storage)

    def _extract(
        self,
        paths: Sequence[Path],
        spans: Sequence[Span | None],
        wanted: Wanted | None = None,
        storage: Storage | None = None,
    ) -> Extracted:
        """Extract reports, each within its span."""
        stored = storage or Storage("", self.workers.folder, in_memory=self.resources.in_memory)
        asked = wanted or self._wanted(len(paths))
        reports = []
        for n, (path, span) in enumerate(zip(paths, spans, strict=True)):
            whole = ReportPart(
                path=path,
                families=self.selection.families,
                storage=stored.named(f"{n:05}"),
                wanted=asked,
                drawing=Drawing(
                    span=span,
                    reduction=self.selection.reduction,
                    rules=self.request.rules,
                    pthreads_apart=self.request.writing.public_types,
                ),
                limits=self.workers.limits,
            )
            reports.append(parts_of(whole, self.resources.parts[path]))
        extracted = extract_reports(reports, self.workers, self.request.keep_going)
        self.failed += extracted.failed
        return extracted

    def _wanted(self, reports: int) -> Wanted:
        """Return what the extraction of so many reports gives beside what is drawn."""
        window, profiled = self.request.writing.window, bool(self.request.profiles)
        return Wanted(
            analyzed=self._analyzed(),
            wait_calls=self.request.writing.summary or self._explains,
            metrics=ESTIMATED if self.request.estimated else (),
            anchors=anchors_for(self.request.options, reports),
            named_range=None if window in BUILT_IN_WINDOWS else window,
            attributes=(KERNEL_FULL_NAME.key,) if profiled else (),
            beyond=profiled,
        )

    def _analyzed(self) -> tuple[str, ...]:
        """Return the families that analysis or estimates read."""
        whole = self.request.writing.summary or self._explains
        if not whole and not self.request.profiles and not self.request.estimated:
            return ()
        from nsys2prv.analysis.gather.frames_of_run import GATHERED
        from nsys2prv.analysis.gather.stored_intervals import KINDS

        read = GATHERED if whole else (*KINDS, CORRELATION.name) if self.request.profiles else tuple(KINDS)
        return tuple(family for family in self.selection.families if family in read)

    @property
    def _explains(self) -> bool:
        """Return True if events are wanted that need the dependency graph."""
        return any(family in self.selection.families for family in EXPLANATION_FAMILIES)

    def whole_run(self, plan: Plan) -> WholeRun:
        """Return the planned run as one that is in memory at once."""
        # Loaded when needed: most translations do without the analysis.
        from nsys2prv.analysis.recording.circumstances import recorded_uncut
        from nsys2prv.commands.whole_run import WholeRun

        run = WholeRun(
            plan=plan,
            failed=self.failed,
            memory=self.resources.memory,
            workers=self.workers,
            profiles=self.request.profiles,
        )
        if self.whole_plan is None:
            return run
        return run._replace(span=Span(0, plan.duration), uncut=recorded_uncut(plan, self.whole_plan))

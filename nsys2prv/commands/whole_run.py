"""All of a planned run in memory at once: its frames, estimates, critical path, causes of idle time and analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.conclude import conclude
from nsys2prv.analysis.explained_events import explained_events
from nsys2prv.analysis.frames import Run, restricted
from nsys2prv.analysis.gather.frames_of_run import gather
from nsys2prv.analysis.gather.operations_of_run import with_operations
from nsys2prv.analysis.gather.stored_intervals import gathered_rows
from nsys2prv.analysis.metrics.estimates import estimate
from nsys2prv.analysis.ncu.events import profiled_events
from nsys2prv.analysis.ncu.join import with_profiles
from nsys2prv.analysis.question import Question
from nsys2prv.errors import ReportError
from nsys2prv.intervals.spans import Span
from nsys2prv.pipeline.encode.encoding_input import Estimates, RunEvents
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.memory import check_analysis
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.report.ncu.profile import Profile
from nsys2prv.run.plan import Plan


class WholeRun(NamedTuple):
    """A planned run whose intervals are stored whole, beside its points.

    `failed`: reports that were left out; `memory`: bytes that this process may take (None: what is free); `profiles`:
    files of Nsight Compute, with which intervals of all of the run are stored; `span` (merged ns): the time of it that
    is wanted (None: all); `uncut`: where the reports were cut to that time, when each task was recorded in all of the
    run (merged ns).
    """

    plan: Plan
    failed: Sequence[ReportError]
    memory: int | None
    workers: Workers
    profiles: Sequence[Profile] = ()
    span: Span | None = None
    uncut: Mapping[int, Span] | None = None

    def check(self) -> None:
        """Refuse a run that does not fit in memory. Raises UsageError."""
        check_analysis(*gathered_rows(self.plan), self.memory, self.workers.limits)

    def estimates(self, least: int) -> Estimates | None:
        """Estimate the tensor activity by class of kernels; those that last less than `least` ns are not counted."""
        return estimate(self.plan, self.memory, least, self.workers.limits, self.span)

    def explained(self, families: Sequence[str]) -> tuple[RunEvents, ...]:
        """Return the events of the chosen families that need the dependency graph. Raises UsageError, OutputError."""
        self.check()
        run, workers = self.frames()._replace(samples=()), self.workers
        return on_polars_thread(explained_events)(self.plan, run, families, workers.folder, workers.limits)

    def profiled(self, least: int) -> RunEvents:
        """Return the events of Nsight Compute on kernels that last `least` ns or more.

        Raises UsageError, OutputError.
        """
        self.check()
        run, workers = self._gathered(), self.workers
        found = on_polars_thread(with_profiles)(run, self.plan, self.profiles)
        events = on_polars_thread(profiled_events)(self._cut(found), least, workers.folder, workers.limits)
        said = (*found.remarks[len(run.remarks) :], *found.details[len(run.details) :])
        return events._replace(remarks=said)

    def analysis(self, window: str) -> Analysis:
        """Analyze a window of the run, without GPU metrics. Raises UsageError for a range that no rank has."""
        return on_polars_thread(conclude)(self.frames()._replace(samples=()), Question(window=window))

    def frames(self) -> Run:
        """Return the frames of the wanted time, with what Nsight Compute tells of kernels. Raises OutputError."""
        joined, workers = on_polars_thread(with_profiles)(self._gathered(), self.plan, self.profiles), self.workers
        run = on_polars_thread(with_operations)(joined, self.plan, workers.folder, workers.limits, self.span)
        return self._cut(run)

    def _gathered(self) -> Run:
        run = gather(self.plan, [str(error) for error in self.failed], self.span)
        return run if self.uncut is None else run._replace(recorded=self.uncut)

    def _cut(self, run: Run) -> Run:
        return restricted(run, *self.span) if self.span else run

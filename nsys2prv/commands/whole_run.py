"""All of a translated run in memory at once: its estimates, its critical path and causes of idle time, its analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nsys2prv.analysis.estimates import estimate
from nsys2prv.analysis.explained_events import explained_events
from nsys2prv.analysis.findings.rules import conclude
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.frames_of_run import gather, gathered_rows
from nsys2prv.analysis.operations_of_run import with_operations
from nsys2prv.analysis.question import Question
from nsys2prv.analysis.result import Analysis, restricted
from nsys2prv.errors import ReportError
from nsys2prv.pipeline.encode.encoding_input import Estimates, RunEvents
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.pipeline.workers.resources import check_analysis
from nsys2prv.run.plan import Plan


class WholeRun(NamedTuple):
    """A planned run whose intervals are stored whole, beside its points.

    `hosts`: by pattern of report names, as for the plan; `failed`: reports that were left out; `cut`: true where a part
    of its time is translated; `memory`: bytes that this process may take (None: what is free).
    """

    plan: Plan
    hosts: Mapping[str, str]
    failed: Sequence[ReportError]
    cut: bool
    memory: int | None
    workers: Workers

    def check(self) -> None:
        """Refuse a run that does not fit in memory. Raises UsageError."""
        check_analysis(gathered_rows(self.plan), self.memory, self.workers.limits)

    def estimates(self, least: int) -> Estimates | None:
        """Estimate the tensor activity by class of kernels; those that last less than `least` ns are not counted."""
        return estimate(self.plan, self.hosts, self.memory, least, self.workers.limits)

    def explained(self, families: Sequence[str]) -> tuple[RunEvents, ...]:
        """Return the events of the chosen families that need the dependency graph. Raises UsageError, OutputError."""
        self.check()
        run, team = self._frames(), self.workers
        return on_polars_thread(explained_events)(self.plan, run, families, team.folder, team.limits)

    def analysis(self) -> Analysis:
        """Analyze the run, without GPU metrics."""
        return on_polars_thread(conclude)(self._frames(), Question())

    def _frames(self) -> Run:
        run = gather(self.plan, self.hosts, [str(error) for error in self.failed])._replace(samples=())
        run = on_polars_thread(with_operations)(run, self.plan, self.workers.folder, self.workers.limits)
        return restricted(run, 0, self.plan.duration) if self.cut else run

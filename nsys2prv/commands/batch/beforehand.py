"""Failures of a batch, told before it runs: reports that cannot be opened, or that are of several runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from nsys2prv.commands.batch.jobs import Settings
from nsys2prv.commands.extraction import among_others, none_left
from nsys2prv.commands.translate import translate
from nsys2prv.errors import Nsys2prvError, ReportError
from nsys2prv.families.selection import Selection
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.report.discover import find_reports
from nsys2prv.report.identity import Identity
from nsys2prv.report.nsys import RAW, export_of, find_nsys
from nsys2prv.report.report import open_report
from nsys2prv.run.hosts import find_hosts
from nsys2prv.run.report_events import active_processes, event_span
from nsys2prv.run.separate_runs import ReportFacts, facts_of, separate_runs

# Families with the communicators of NCCL, which tell a run apart from another.
WITH_COMMUNICATORS = ("nccl", "nccl_operations")


def failure_of(reports: Sequence[Path], settings: Settings) -> str | None:
    """Return the error with which a run would fail, as far as its reports tell when they are opened; None without any.

    Reports that nsys would export first are not judged. Damage inside of tables shows only when they are read.
    """
    execution = settings.execution
    nsys = find_nsys(execution.nsys)
    if nsys is not None and nsys.is_file() and any(one.suffix in RAW and export_of(one) is None for one in reports):
        return None
    failed: list[ReportError] = []
    try:
        paths = find_reports(reports, execution.nsys, failed if execution.keep_going else None)
        facts = _facts(paths, failed, execution.keep_going)
        if len(facts) > 1 and not settings.options.one_run and len(separate_runs(facts)) > 1:
            _check_one_run([fact.path for fact in facts], settings)
    except Nsys2prvError as error:
        return str(error)
    return None


@on_polars_thread
def _facts(paths: Sequence[Path], failed: list[ReportError], keep_going: bool) -> list[ReportFacts]:
    """Return what tells runs apart, of reports that can be opened; of a single one there is nothing to tell.

    With `keep_going` errors of others go to `failed`, as long as one is left. Raises ReportError, Nsys2prvError.
    """
    identities: list[Identity] = []
    read, active, ends = [], [], []
    for path in paths:
        try:
            with open_report(path) as report:
                identity = report.identity
                processes = active_processes(report, [p.pid for p in identity.processes]) if len(paths) > 1 else ()
                span = event_span(report) if len(paths) > 1 else None
        except ReportError as error:
            if not keep_going:
                raise among_others(error) if len(paths) > 1 else error from None
            failed.append(error)
            continue
        identities.append(identity)
        read.append(path)
        active.append(processes)
        ends.append(span and span[1])
    if not read:
        raise none_left(failed)
    return facts_of(read, identities, find_hosts(identities, [path.name for path in read], {}), active, ends)


def _check_one_run(paths: Sequence[Path], settings: Settings) -> None:
    """Check by NCCL's communicators, too, which take long to read, that reports are of one run.

    Raises Nsys2prvError.
    """
    with TemporaryDirectory(prefix="nsys2prv-") as folder:
        translate(
            paths,
            Path(folder, "trace"),
            selection=Selection(families=WITH_COMMUNICATORS),
            options=replace(settings.options, one_run=False),
            execution=replace(settings.execution, quiet=True),
            dry_run=True,
        )

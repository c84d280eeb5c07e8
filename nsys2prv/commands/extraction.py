"""The extraction of a run: one part or more of each report, read by workers, and the reports that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from nsys2prv.errors import LostWorkerError, Nsys2prvError, ReportError, UsageError
from nsys2prv.families.host.overhead import FAMILY as OVERHEAD
from nsys2prv.families.metrics.gpu_metrics import FAMILY as GPU_METRICS
from nsys2prv.families.metrics.tensor_estimate import FAMILY as TENSOR_ESTIMATE
from nsys2prv.families.registry import ANCHOR_FAMILIES, DEFAULT_FAMILIES, FAMILIES
from nsys2prv.families.selection import Selection
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.extract.extract import extract
from nsys2prv.pipeline.extract.parts import summary_of_parts
from nsys2prv.pipeline.extract.report_part import ReportPart
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.resources import input_size
from nsys2prv.report.discover import find_reports, is_folder_of_reports, listed
from nsys2prv.report.report import open_report
from nsys2prv.run.named_ranges import span_of_range
from nsys2prv.run.options import RunOptions
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Summary


class Extracted(NamedTuple):
    """Summaries of the reports that could be read, their paths, and the errors of the others."""

    summaries: list[Summary]
    paths: list[Path]
    failed: list[ReportError]


def extract_reports(reports: Sequence[Sequence[ReportPart]], workers: Workers, keep_going: bool) -> Extracted:
    """Extract reports, given the parts of each. A report that cannot be read stops the run, or is left out.

    Raises ReportError, LostWorkerError, OutputError, and Nsys2prvError if none is left.
    """
    # The largest first: at the end it would keep a single worker busy.
    every = sorted((part for own in reports for part in own), key=lambda p: input_size([p.path]), reverse=True)
    attempts = workers.progress.track("reading reports", _try_all(workers, every), len(every))
    done: dict[Path, list[Summary]] = {}
    errors: dict[Path, ReportError] = {}
    for part, result in zip(every, attempts, strict=True):
        if isinstance(result, Summary):
            done.setdefault(part.path, []).append(result)
        elif keep_going:
            errors.setdefault(part.path, result)
        else:
            raise result
    paths = [own[0].path for own in reports]
    failed = [errors[path] for path in paths if path in errors]
    read = [path for path in paths if path not in errors]
    if not read:
        reasons = "; ".join(map(str, failed))
        raise Nsys2prvError(f"none of the reports can be read; give others, or mend these: {reasons}")
    return Extracted([summary_of_parts(done[path]) for path in read], read, failed)


def families_to_draw(chosen: tuple[str, ...], summaries: Sequence[Summary]) -> tuple[str, ...]:
    """Return the chosen families; if they are the default ones and no report has any of them, also those it has.

    The overhead of the profiler is no part of the run.
    """
    if chosen != DEFAULT_FAMILIES or any(s.uses.height for s in summaries):
        return chosen
    held = {family for s in summaries for family in s.off} - {OVERHEAD.name}
    return tuple(f.name for f in FAMILIES if f.name in chosen or f.name in held)


def estimates_tensor(paths: Sequence[Path], families: Sequence[str]) -> bool:
    """Return True if tensor activity is estimated: that is chosen with GPU metrics, and a report may have these."""
    return {TENSOR_ESTIMATE.name, GPU_METRICS.name} <= set(families) and any(map(_may_sample_gpus, paths))


def _may_sample_gpus(path: Path) -> bool:
    # The error is raised when the report is read.
    with suppress(ReportError), open_report(path) as report:
        return any(report.has(table) for table in GPU_METRICS.draws)
    return False


class FoundRun(NamedTuple):
    """Reports of a run: their paths, the options that make them one run, and the errors of those that are left out."""

    paths: list[Path]
    options: RunOptions
    failed: list[ReportError]


def find_run(inputs: Iterable[Path | str] | Path | str, options: RunOptions, execution: Execution) -> FoundRun:
    """Find the reports of a run, and decide if they are one run where the options do not. Raises Nsys2prvError.

    They are if no folder is named.
    """
    named = listed(inputs)
    failed: list[ReportError] = []
    paths = find_reports(named, execution.nsys, failed if execution.keep_going else None)
    if execution.dask:
        # Its workers have a current folder of their own.
        paths = [path.absolute() for path in paths]
    if options.one_run is None:
        options = replace(options, one_run=not any(map(is_folder_of_reports, named)))
    return FoundRun(paths, options, failed)


def try_extract(part: ReportPart) -> Summary | ReportError:
    """Extract, or return the error."""
    try:
        return extract(part)
    except ReportError as error:
        return error


def _try_all(workers: Workers, parts: Sequence[ReportPart]) -> Iterator[Summary | ReportError]:
    """Try all parts. Raises LostWorkerError, which names the reports under way."""
    try:
        yield from workers.map(try_extract, parts)
    except LostWorkerError as lost:
        names = " or ".join(dict.fromkeys(str(part.path) for part in lost.items))
        if not names:
            raise
        cause = "a worker was killed over it, perhaps for lack of memory"
        raise LostWorkerError(f"{names}: {cause}; use fewer --jobs") from None


def anchors_for(options: RunOptions, reports: int) -> tuple[str, ...]:
    """Return the families that look for anchors: none if one clock suffices, or if the clocks are given."""
    return ANCHOR_FAMILIES if options.fits_clocks and reports > 1 else ()


def fits_in_memory(paths: Sequence[Path], jobs: int, dask: str | None, limits: Limits) -> bool:
    """Return True if the points of these reports stay in memory."""
    return jobs == 1 and dask is None and input_size(paths) < limits.in_memory_bytes


def chosen_span(plan: Plan, selection: Selection) -> tuple[int, int]:
    """Return begin and end (merged ns) of the chosen time or NVTX range. Raises UsageError."""
    low, high = 0, plan.duration
    if selection.nvtx is not None:
        low, high = span_of_range(plan.summaries, plan.clocks, selection.nvtx)
    if selection.time is not None:
        start, end = selection.time
        low, high = max(low, low if start is None else start), min(high, high if end is None else end)
    if high <= low:
        asked = _in_seconds(selection.time) if selection.time else f"{low / 1e9:.6f} to {high / 1e9:.6f} s"
        of_range = " and --nvtx" if selection.time and selection.nvtx is not None else ""
        raise UsageError(
            f"the chosen time, {asked}{of_range}, is empty or outside of the run; "
            f"choose a begin before the end, within 0 to {plan.duration / 1e9:.6f} s"
        )
    return low, high


def _in_seconds(time: tuple[int | None, int | None]) -> str:
    """Return a chosen time (ns; None: not given) as the user gave it."""
    begin, end = ("" if ns is None else f"{ns / 1e9:.6f}" for ns in time)
    return f"{begin} to {end} s" if begin and end else f"from {begin} s on" if begin else f"up to {end} s"

"""The extent of an extraction: which families and which time are extracted, and whether points stay in memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nsys2prv.errors import ReportError, UsageError
from nsys2prv.families.host.overhead import FAMILY as OVERHEAD
from nsys2prv.families.metrics.gpu_metrics import FAMILY as GPU_METRICS
from nsys2prv.families.registry import ANCHOR_FAMILIES, DEFAULT_FAMILIES, FAMILIES
from nsys2prv.families.selection import Selection
from nsys2prv.families.whole_run import TENSOR_ESTIMATE_FAMILY
from nsys2prv.intervals.spans import Span
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.workers.input_size import input_size
from nsys2prv.report.report import open_report
from nsys2prv.run.named_ranges import span_of_range
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Summary
from nsys2prv.run.run_options import RunOptions


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
    return {TENSOR_ESTIMATE_FAMILY.name, GPU_METRICS.name} <= set(families) and any(map(_may_sample_gpus, paths))


def _may_sample_gpus(path: Path) -> bool:
    # The error is raised when the report is read.
    with suppress(ReportError), open_report(path) as report:
        return any(report.has(table) for table in GPU_METRICS.draws)
    return False


def anchors_for(options: RunOptions, reports: int) -> tuple[str, ...]:
    """Return the families that look for anchors: none if one clock suffices, or if the clocks are given."""
    return ANCHOR_FAMILIES if options.fits_clocks and reports > 1 else ()


def fits_in_memory(paths: Sequence[Path], jobs: int, dask: str | None, limits: Limits) -> bool:
    """Return True if the points of these reports stay in memory."""
    return jobs == 1 and dask is None and input_size(paths) < limits.in_memory_bytes


def chosen_span(plan: Plan, selection: Selection) -> Span:
    """Return the chosen time (merged ns), or that of the chosen NVTX range. Raises UsageError."""
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
    return Span(low, high)


def _in_seconds(time: tuple[int | None, int | None]) -> str:
    """Return a chosen time (ns; None: not given) as the user gave it."""
    begin, end = ("" if ns is None else f"{ns / 1e9:.6f}" for ns in time)
    return f"{begin} to {end} s" if begin and end else f"from {begin} s on" if begin else f"up to {end} s"

"""Disk and memory: the need of a translation, and its use."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nsys2prv.errors import OutputError, ReportError, UsageError
from nsys2prv.families.family import Family
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.selection import Selection
from nsys2prv.model.event_types import HELD_TYPES
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.workers.memory import free_memory
from nsys2prv.report.report import open_report

# Temporary files in parts of the inputs, at most about (real reports of many kinds; the most, 1.5, where several
# processes divide the same tables of one report). Parquet is packed.
_ABOUT = {False: 1.6, True: 20.0}
# Bytes that a report has as SQLite for each byte of Parquet, at least (a real one 8; some made longer 6 to 17).
_PACKED = 6
# Lowest number of bytes on disk for a row that becomes an interval: as two points, or whole.
POINTS_BYTES, INTERVAL_BYTES = 2 * 25, 30


def input_size(paths: Sequence[Path]) -> int:
    """Add up the bytes of reports as a measure of their work. Parquet counts as the size of its SQLite form."""
    return sum(_bytes(p) * (_PACKED if p.is_dir() and any(p.glob("*.parquet")) else 1) for p in paths)


def within_memory(jobs: int, memory: int | None, limits: Limits) -> int:
    """Return how many of `jobs` workers fit in memory (bytes; None: half of what is free). Raises UsageError."""
    least = limits.worker_memory
    if memory is not None and memory < least:
        raise UsageError(f"--memory {memory / 1e6:.0f} MB is too little; give at least {least / 1e6:.0f} MB")
    budget = free_memory() // 2 if memory is None else memory
    return jobs if jobs == 1 else max(1, min(jobs, (budget - limits.parent_memory) // least))


def analysis_needs(intervals: int, ranges: int, limits: Limits) -> int:
    """Estimate the memory (bytes) of an analysis of so many calls and device activities, and of NVTX ranges."""
    return limits.analysis_memory + intervals * limits.interval_memory + ranges * limits.range_memory


def analysis_budget(memory: int | None) -> int:
    """Return the memory (bytes) that an analysis may take: what the user allows (None: all that is free)."""
    return free_memory() if memory is None else memory


def check_analysis(intervals: int, ranges: int, memory: int | None, limits: Limits) -> None:
    """Refuse an analysis that cannot fit in memory (see `analysis_needs`, `analysis_budget`). Raises UsageError."""
    needed, budget = analysis_needs(intervals, ranges, limits), analysis_budget(memory)
    if needed > budget:
        raise too_large(intervals + ranges, needed, budget)


def too_large(intervals: int, needed: int, budget: int) -> UsageError:
    """Return the error that an analysis of so many intervals needs more memory (bytes) than it may take."""
    return UsageError(
        f"to analyze {intervals:,} intervals at once takes about {needed / 1e6:.0f} MB of memory, and "
        f"{budget / 1e6:.0f} MB are free or allowed by --memory; analyze less (--time, --nvtx, --ranks, --only), "
        "or where there is more memory"
    )


def _about_temporary(paths: Sequence[Path]) -> float:
    """Estimate the bytes that the points of these reports take. They rarely take more."""
    return sum(_bytes(p) * _ABOUT[p.is_dir()] for p in paths)


def check_temporary(folder: Path, paths: Sequence[Path], selection: Selection, row_bytes: int = POINTS_BYTES) -> None:
    """Refuse to begin where the temporary files cannot fit. Raises OutputError.

    Rows (`row_bytes` each) are counted only if space may be short. Nothing is refused if a time is chosen: the number
    of its rows is not known yet.
    """
    fits = shutil.disk_usage(folder).free > _about_temporary(paths)
    if fits or selection.time or selection.nvtx or selection.reduction.min_duration:
        return
    families = [f for f in FAMILIES if f.name in selection.families and f.draws and _draws_intervals(f)]
    rows = 0
    for path in paths:
        # A report that cannot be read is reported when it is read.
        with suppress(ReportError), open_report(path) as report:
            rows += sum(family.rows_in(report) for family in families)
    # The folder itself is ours and is gone when this is read.
    what = "reading these reports takes temporary files of at least"
    check_space(folder.parent, rows * row_bytes, what, "choose a folder with more by --spill-dir")


def _draws_intervals(family: Family) -> bool:
    """Return True if all rows of a family become intervals. Samples that change nothing are not written."""
    held = [t for t in family.emits if any(t.number in r for r in HELD_TYPES)]
    return bool(family.emits) and not held and family.count is None


def check_space(folder: Path, needed: int, what: str, elsewhere: str) -> None:
    """Refuse to write more bytes than the folder's disk has free. Raises OutputError.

    `what`: what takes them; `elsewhere`: how to write to another disk.
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OutputError(
            f"{folder}: {what} {needed / 1e6:.1f} MB, and {free / 1e6:.1f} MB are free; free space there, {elsewhere}, "
            "or choose less (--time, --nvtx, --ranks, --skip)"
        )


def folder_size(folder: Path) -> int:
    """Add up the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def peak_memory() -> int:
    """Add up the peak memory (bytes) of this process and of each worker. The peaks need not coincide."""
    # If it is not loaded there are no workers; an import would take a hundredth of a short run.
    started = sys.modules.get("multiprocessing")
    workers = started.active_children() if started else []
    return sum(_peak_of(pid) for pid in (os.getpid(), *(w.pid for w in workers)))


def _peak_of(pid: int | None) -> int:
    """Return the most memory (bytes) that a process has held; 0 for one that has ended."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        # A worker that has just ended.
        return 0
    return int(found[1]) * 1024 if found else 0


def _bytes(report: Path) -> int:
    """Return the bytes of a report; 0 if it is missing, such as a link to nowhere (an error when it is read)."""
    with suppress(OSError):
        if not report.is_dir():
            return report.stat().st_size
        with os.scandir(report) as files:
            return sum(file.stat().st_size for file in files)
    return 0

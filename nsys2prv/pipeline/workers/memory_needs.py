"""Memory that the work needs: how many workers fit, which analysis does, and what was taken at most.

The sizes are in `model/limits.py`; what is free is in `memory`.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from nsys2prv.errors import UsageError
from nsys2prv.model.limits import Limits
from nsys2prv.model.units import bytes_text
from nsys2prv.pipeline.workers.memory import free_memory


def within_memory(jobs: int, memory: int | None, limits: Limits) -> int:
    """Return how many of `jobs` workers fit in memory (bytes; None: half of what is free). Raises UsageError."""
    least = limits.worker_memory
    if memory is not None and memory < least:
        raise UsageError(f"--memory {bytes_text(memory)} is too little; give at least {bytes_text(least)}")
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
        f"to analyze {intervals:,} intervals at once takes about {bytes_text(needed)} of memory, and "
        f"{bytes_text(budget)} are free or allowed by --memory; analyze less (--time, --nvtx, --ranks, --only), "
        "or where there is more memory"
    )


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

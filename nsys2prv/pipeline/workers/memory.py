"""Memory: what is free on the machine, how many workers and which analysis fit into it, and what was taken at most.

Sizes of the work are in `model/limits.py`. Formats: proc(5), cgroups(7), and of control groups the kernel's
cgroup-v1/memory.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nsys2prv.errors import UsageError
from nsys2prv.model.limits import Limits
from nsys2prv.model.units import bytes_text

ROOT = Path("/")
# Files with a group's limit, its use, and the part of the use that is cached files, which it gives back first.
VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
VERSION_2 = ("memory.max", "memory.current", "inactive_file")


def free_memory() -> int:
    """Return the bytes that processes may still take: free on the machine, or less if control groups allow less."""
    free, left = machine_free(), group_left()
    return free if left is None else min(free, left)


def machine_free() -> int:
    """Return the bytes that the kernel would give without swapping."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", (ROOT / "proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def group_left() -> int | None:
    """Return the bytes that the control groups of this process leave it; None without a limit.

    The limits of all parent groups count, too: a SLURM job has its limit above the groups of its steps and tasks.
    """
    with suppress(OSError):
        lines = (ROOT / "proc/self/cgroup").read_text().splitlines()
        return min((left for line in lines for left in _left_of(*line.split(":", 2))), default=None)
    return None


def _left_of(number: str, controllers: str, path: str) -> Iterator[int]:
    """Yield the bytes left in a group and in each above it, given a line of /proc/self/cgroup in its three fields."""
    # Version 2 has one hierarchy, number 0; in version 1 memory has its own.
    limit_file, used_file, cached = VERSION_2 if number == "0" else VERSION_1
    own = Path(path.lstrip("/"))
    for group in (ROOT / "sys/fs/cgroup" / controllers / above for above in (own, *own.parents)):
        # A group without a limit says `max`, and the topmost one nothing.
        with suppress(OSError, ValueError):
            limit, used = (int((group / name).read_text()) for name in (limit_file, used_file))
            yield max(0, limit - used + _figure(group / "memory.stat", cached))


def _figure(file: Path, name: str) -> int:
    """Return the figure that a file of lines `NAME NUMBER` has under a name; 0 without it."""
    found = re.search(rf"^{name} (\d+)$", file.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


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

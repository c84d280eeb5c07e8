"""Free memory of the machine and its control groups. What the work needs of it is in `memory_needs`.

Formats: proc(5), cgroups(7), and of control groups the kernel's cgroup-v1/memory.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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

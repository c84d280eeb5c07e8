"""A core of its own for each worker of this machine, where they are as many as the cores.

Threads of a worker wake each other all the time, which is quick on one core only.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any


def keep_on(core: int) -> None:
    """Keep this thread, and those that it is to start, on a core."""
    # The core may be gone, where a batch system has just changed what is ours.
    with suppress(OSError):
        os.sched_setaffinity(0, {core})


def dask_setup(worker: Any) -> None:
    """What Dask calls in a worker before it works, where this module is one to load: its core is that of its number."""
    cores = sorted(os.sched_getaffinity(0))
    keep_on(cores[worker.name % len(cores)])

"""A core of its own for each worker of this machine, if there are as many workers as cores.

Threads of a worker wake each other all the time, which is quick on one core only.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any


def keep_on(core: int) -> None:
    """Keep this thread, and all threads that it will start, on a core."""
    # The core may be gone if a batch system has just changed our share.
    with suppress(OSError):
        os.sched_setaffinity(0, {core})


def dask_setup(worker: Any) -> None:
    """Give a Dask worker the core of its number. Dask calls this in each worker that preloads this module."""
    cores = sorted(os.sched_getaffinity(0))
    keep_on(cores[worker.name % len(cores)])

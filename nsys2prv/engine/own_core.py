"""Loaded by Dask into each worker of this machine, where they are as many as the cores: each has one to itself.

Threads of a worker wake each other all the time, which is quick on one core only.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any


def dask_setup(worker: Any) -> None:
    """Keep a worker, and the threads that it is to start, on the core of its number."""
    cores = sorted(os.sched_getaffinity(0))
    # The core may be gone, where a batch system has just changed what is ours.
    with suppress(OSError):
        os.sched_setaffinity(0, {cores[worker.name % len(cores)]})

"""Where the maps run: here, in a pool of processes on this machine, or on Dask. The same functions everywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nsys2prv.pipeline.workers.maps import Map

# Below this size of all inputs a second process costs more than it saves.
SMALL_INPUT = 40_000_000


def default_jobs(input_bytes: int, parts: int) -> int:
    """Workers when the user names none: one for small inputs, else a core each, at most one a part."""
    if input_bytes < SMALL_INPUT:
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), parts))


def processes(input_bytes: int, reports: int, jobs: int | None) -> int:
    """How many processes have work, of `jobs` or as many as are useful: on reports, or on windows of large ones."""
    parts = max(reports, input_bytes // SMALL_INPUT)
    return min(jobs or default_jobs(input_bytes, parts), parts)


@contextmanager
def workers(jobs: int | None, dask: str | None = None, parts: int | None = None) -> Iterator[Map[Any, Any]]:
    """A function that maps in order: inline for one job, else over a pool of processes, or over Dask workers.

    `parts`: how many items the longest map has, where they may be fewer than the jobs; processes of the pool then have
    the cores of those that wait. Raises LostWorkerError.
    """
    if dask is not None:
        # Loaded only when it is asked for: it is an extra.
        from nsys2prv.pipeline.workers.cluster import cluster

        with cluster(dask, jobs) as mapped:
            yield mapped
        return
    if jobs is None or jobs <= 1:
        yield lambda function, items: map(function, items)
        return
    # Loaded only when it is needed: what runs processes takes a tenth of the start-up time.
    from nsys2prv.pipeline.workers.pool import pool

    with pool(jobs, parts) as mapped:
        yield mapped

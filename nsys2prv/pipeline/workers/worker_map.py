"""The map of the workers: over this process alone, a pool of processes on this machine, or Dask; and their number."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.workers.maps import Map


def default_jobs(input_bytes: int, items: int, limits: Limits) -> int:
    """Return the default number of workers: one for small inputs, else one a core, at most one an item of work."""
    if input_bytes < limits.process_bytes:
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), items))


def process_count(input_bytes: int, reports: int, jobs: int | None, limits: Limits) -> int:
    """Return how many of `jobs` processes find work, on reports or on windows of large ones. None: as many as help."""
    items = max(reports, input_bytes // limits.process_bytes)
    return min(jobs or default_jobs(input_bytes, items, limits), items)


@contextmanager
def worker_map(jobs: int | None, dask: str | None = None, items: int | None = None) -> Iterator[Map[Any, Any]]:
    """Yield a function that maps in order: inline for one job, else over a pool of processes, or over Dask workers.

    `items`: number of items of the longest map, if it may be lower than the number of jobs. The processes of a pool
    then share the cores that are left. Raises LostWorkerError.
    """
    if dask is not None:
        # Loaded only on request: it is an extra.
        from nsys2prv.pipeline.workers.cluster import cluster

        with cluster(dask, jobs) as mapped:
            yield mapped
        return
    if jobs is None or jobs <= 1:
        yield map
        return
    # Loaded only when it is needed: the import takes a tenth of the start-up time.
    from nsys2prv.pipeline.workers.pool import pool

    with pool(jobs, items) as mapped:
        yield mapped

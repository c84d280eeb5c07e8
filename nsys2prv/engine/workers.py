"""Where the maps run: here, in a pool of processes on this machine, or on Dask. The same functions everywhere."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from nsys2prv.errors import LostWorkerError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Below this size of all inputs a second process costs more than it saves.
SMALL_INPUT = 40_000_000

Map = Callable[[Callable[[Item], Result], Iterable[Item]], Iterator[Result]]


def default_jobs(input_bytes: int, parts: int) -> int:
    """Workers when the user names none: one for small inputs, else a core each, at most one a part."""
    if input_bytes < SMALL_INPUT:
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), parts))


def ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Map in order, working on one item while the one before it is used: two results are in memory at most."""
    with ThreadPoolExecutor(2) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) == 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def workers(jobs: int | None, dask: str | None = None, parts: int | None = None) -> Iterator[Map[Any, Any]]:
    """A function that maps in order: inline for one job, else over a pool of processes, or over Dask workers.

    `parts`: how many items the longest map has, where they may be fewer than the jobs; processes of the pool then have
    the cores of those that wait. Raises LostWorkerError.
    """
    if dask is not None:
        # Loaded only when it is asked for: it is an extra.
        from nsys2prv.engine.cluster import cluster

        with cluster(dask, jobs) as mapped:
            yield mapped
        return
    if jobs is None or jobs <= 1:
        yield lambda function, items: map(function, items)
        return
    with pool(jobs, parts) as mapped:
        yield mapped


@contextmanager
def pool(jobs: int, parts: int | None = None) -> Iterator[Map[Any, Any]]:
    """A function that maps in order over a pool of processes, as `workers` says.

    Raises LostWorkerError when one is killed.
    """
    # Spawned, not forked: Polars' threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    threads = max(1, len(os.sched_getaffinity(0)) // min(jobs, parts or jobs))
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker, initargs=(threads,)) as executor:

        def mapped(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            # Workers start here and inherit what is blocked: Ctrl-C, which a terminal sends to all, is ours to handle.
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                return executor.map(function, items)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

        try:
            yield mapped
        except BrokenProcessPool:
            raise LostWorkerError("a worker was killed, perhaps for lack of memory; use fewer --jobs") from None
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
                worker.join()
            raise


def _begin_worker(threads: int) -> None:
    """Share the cores with the other workers, and end with the process that started this one, however it ends."""
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)

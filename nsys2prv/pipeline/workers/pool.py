"""A pool of processes on this machine, which ends with the process that started it.

Workers import this module before they know their cores and their number of threads: it imports nothing that
starts threads, or reads then how many there may be.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from typing import Any

from nsys2prv.errors import LostWorkerError
from nsys2prv.pipeline.workers.maps import Map
from nsys2prv.pipeline.workers.own_core import keep_on

# Variable with the number of threads that Polars starts. Polars reads it when it is imported.
POLARS_THREADS = "POLARS_MAX_THREADS"
WORKER_KILLED = "a worker was killed, perhaps for lack of memory; use fewer --jobs"


@contextmanager
def pool(jobs: int, items: int | None = None) -> Iterator[Map[Any, Any]]:
    """Yield a function that maps in order over a pool of processes: see `worker_map`.

    Raises LostWorkerError with the items under way when a process is killed.
    """
    # Spawned, not forked: Polars' threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    cores = sorted(os.sched_getaffinity(0))
    most = int(os.environ.get(POLARS_THREADS, len(cores)))
    threads = max(1, min(most, len(cores) // min(jobs, items or jobs)))
    own = context.SimpleQueue()
    for core in cores if jobs == len(cores) and threads == 1 else ():
        own.put(core)
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker, initargs=(threads, own)) as executor:

        def mapped(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            # Workers start here and inherit the blocked signals: this process handles Ctrl-C, which a terminal sends to
            # all.
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                waiting = deque((item, executor.submit(function, item)) for item in items)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            return _results(waiting, jobs)

        try:
            yield mapped
        except BrokenProcessPool:
            raise LostWorkerError(WORKER_KILLED) from None
        except BaseException:
            with _uninterrupted():
                # A worker that ends while it sends a result leaves a thread of the executor that reads the rest. The
                # thread ends only when nobody can send any more, and this process waits for it at its end. The
                # executor offers no way to close its own end of the pipe, and forgets the pipe when it does not wait:
                # so it is taken before and closed after. Without this an interrupt hangs (a test shows it).
                results: Any = executor._result_queue
                executor.shutdown(wait=False, cancel_futures=True)
                left = set(multiprocessing.active_children()) - others
                # All before any is waited for: this process could not end while one lives.
                for worker in left:
                    worker.terminate()
                for worker in left:
                    worker.join()
                results._writer.close()
            raise


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C, which an impatient user presses again. Only the main thread can ignore it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _results(waiting: deque[tuple[Any, Future[Any]]], jobs: int) -> Iterator[Any]:
    """Yield results in order. Raises LostWorkerError with the items under way when a process is killed."""
    try:
        while waiting:
            result = waiting[0][1].result()
            waiting.popleft()
            yield result
    except BrokenProcessPool:
        lost = [item for item, future in waiting if isinstance(future.exception(), BrokenProcessPool)]
        # Workers take items in their order.
        raise LostWorkerError(WORKER_KILLED, lost[:jobs]) from None


def _begin_worker(threads: int, own: SimpleQueue[int]) -> None:
    """Share the cores with the other workers, load, and end when the parent process ends, however it does.

    `own`: cores, of which each worker takes one for itself.
    """
    os.environ[POLARS_THREADS] = str(threads)
    if not own.empty():
        keep_on(own.get())
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """End this process when its parent has ended."""
    parent.join()
    os._exit(1)

"""Run work with many queries on one of Polars' own threads.

A query from any other thread wakes one of them, perhaps on another core, and waits for it: 0.2 ms for a query of 0.03
ms, if cores are slow to wake. On a Polars thread a query begins at once.
"""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial, wraps
from typing import Generic, ParamSpec, TypeVar

import polars as pl

Given = ParamSpec("Given")
Result = TypeVar("Result")

# After the handler of SIGINT that Polars sets when it is imported, a wait for a worker goes on until its part is done.
signal.siginterrupt(signal.SIGINT, True)

# A signal that comes as a wait begins does not end that wait, but is seen when the next one begins.
_WAIT_S = 0.1

# About as long as a thread takes to start.
_STARTS_S = 0.0002
# A thread that has not started after so long never does: an interrupt has ended its starter.
_NEVER_STARTS_S = 2.0

# Work may wait for threads that ask queries themselves: one of Polars' threads is always left to answer.
_free = threading.Semaphore(pl.thread_pool_size() - 1)


def on_polars_thread(work: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return the function, to run on a Polars thread while the caller waits, or in the caller if none is free.

    Its exceptions reach the caller, and an interrupt of the caller reaches it.
    """

    @wraps(work)
    def done(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        if not _free.acquire(blocking=False):
            return work(*args, **kwargs)
        try:
            return _done(partial(work, *args, **kwargs))
        finally:
            _free.release()

    return done


def _done(work: Callable[[], Result]) -> Result:
    """Let a Polars thread do the work, and return its result."""
    handed = _Handed(work)
    if threading.current_thread() is not threading.main_thread():
        handed.over()
        return handed.result.result()
    # The main thread waits where a signal can reach it. An executor would forget a thread whose start is interrupted.
    asked: Future[None] = Future()
    asking = threading.Thread(target=_ask, args=(handed, asked))
    try:
        asking.start()
        while not asked.done():
            wait([asked], _WAIT_S)
    except KeyboardInterrupt:
        handed.interrupt()
        if asking.is_alive():
            asking.join()
        raise
    asked.result()
    return handed.result.result()


def _ask(handed: _Handed[Result], asked: Future[None]) -> None:
    """Hand over work from a thread of its own, and tell when it is done, or the error."""
    try:
        handed.over()
    except BaseException as error:
        asked.set_exception(error)
    else:
        asked.set_result(None)


class _Handed(Generic[Result]):
    """Work that is handed to a Polars thread."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self.result: Future[Result] = Future()
        self._work = work
        self._thread: Future[int] = Future()
        self._interrupted = False

    def over(self) -> None:
        """Hand it over, and wait until it is done."""
        call = pl.lit(0).map_batches(self._call, pl.Int32)
        # Polars would evaluate a single expression in the calling thread.
        pl.select(call, beside=0)

    def _call(self, column: pl.Series, **_options: object) -> pl.Series:
        """Do the work, as a function of a column that Polars calls on one of its threads."""
        # Polars calls with options of its own first and, where that raises TypeError, again without them.
        self._thread.set_result(threading.get_ident())
        try:
            if self._interrupted:
                raise KeyboardInterrupt
            self.result.set_result(self._work())
        except BaseException as error:
            self.result.set_exception(error)
        return column

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the work when its current query ends, as a signal does in the main thread.

        Work that has not begun does not begin.
        """
        self._interrupted = True
        if not self._thread.done() or self.result.done():
            return
        thread, until = ctypes.c_ulong(self._thread.result()), time.monotonic() + _NEVER_STARTS_S
        # Until a new thread runs, CPython knows it by the number of the thread that starts it. An interrupt would
        # end the new thread, and its starter would wait forever.
        while any(one.ident is None for one in threading.enumerate()) and time.monotonic() < until:
            time.sleep(_STARTS_S)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(KeyboardInterrupt))

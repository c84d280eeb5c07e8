"""Work that is done after what gave it, in the order in which it was given."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

Later = Callable[[Callable[[], None]], None]
# Pieces of work that are not done yet; what they work on is in memory.
MOST_WAITING = 2


@contextmanager
def later(apart: bool) -> Iterator[Later]:
    """Takes pieces of work; at the end of the context all are done.

    `apart`: on a thread of their own, else at once. What they raise is raised by the next call or at the end.
    """
    if not apart:
        yield lambda work: work()
        return
    waiting: deque[Future[None]] = deque()

    def do(work: Callable[[], None]) -> None:
        waiting.append(thread.submit(work))
        if len(waiting) > MOST_WAITING:
            waiting.popleft().result()

    with ThreadPoolExecutor(1) as thread:
        try:
            yield do
            while waiting:
                waiting.popleft().result()
        except BaseException:
            thread.shutdown(cancel_futures=True)
            raise

"""A background queue that runs jobs in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

Job = Callable[[], None]
# A function that puts a job into a queue.
Queue = Callable[[Job], None]
# Jobs that may wait. The frames that they work on are in memory.
MOST_WAITING = 2


@contextmanager
def background_queue(own_thread: bool) -> Iterator[Queue]:
    """Yield a queue whose jobs are all done when the context ends.

    Without a thread of its own the queue runs each job at once. An error of a job is raised by the next call of the
    queue after it, or when the context ends.
    """
    if not own_thread:
        yield lambda job: job()
        return
    waiting: deque[Future[None]] = deque()

    def put(job: Job) -> None:
        while waiting and waiting[0].done():
            waiting.popleft().result()
        waiting.append(thread.submit(job))
        if len(waiting) > MOST_WAITING:
            waiting.popleft().result()

    with ThreadPoolExecutor(1) as thread:
        try:
            yield put
            while waiting:
                waiting.popleft().result()
        except BaseException:
            thread.shutdown(cancel_futures=True)
            raise

"""The type of a map over the parts of the work, and the map that works ahead of its caller."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Map = Callable[[Callable[[Item], Result], Iterable[Item]], Iterator[Result]]


def map_ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Map in order, working on two items while the one before them is used: three results are in memory at most."""
    with ThreadPoolExecutor(2) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) == 3:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

"""Maps over the items of the work: their type, the workers that stages see, and a map that works ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.workers.progress import Item, Progress

Result = TypeVar("Result")

Map = Callable[[Callable[[Item], Result], Iterable[Item]], Iterator[Result]]


@dataclass(frozen=True)
class Workers:
    """The workers of a run. `folder`: intermediate files that all of them see; `count`: 1 means this process alone."""

    map: Map[Any, Any]
    count: int
    folder: Path
    limits: Limits
    progress: Progress


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

"""Progress of the stages: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


class Progress:
    """The progress of each stage, on stderr."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet

    def track(self, stage: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        """Yield the items of a stage, showing how many are done."""
        if self._quiet:
            yield from items
        elif sys.stderr.isatty():
            # Loaded only for a terminal: it costs a tenth of the start-up time.
            from tqdm import tqdm

            yield from tqdm(items, desc=stage, total=total, leave=False, file=sys.stderr)
        else:
            started = time.perf_counter()
            yield from items
            print(f"{stage}: {total} in {time.perf_counter() - started:.1f} s", file=sys.stderr)

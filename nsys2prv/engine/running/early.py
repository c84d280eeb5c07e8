"""Reading that begins before what works on it is loaded: for the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nsys2prv.engine.catalogue import reads_of
from nsys2prv.engine.running.workers import processes
from nsys2prv.report import ahead

# A report below this (bytes) is read in some hundredths of a second.
WORTH = 4_000_000


@contextmanager
def reading_early(
    inputs: Sequence[Path], families: Iterable[str], jobs: int | None, dask: str | None
) -> Iterator[None]:
    """Within it the tables of families are on their way, if the run is one SQLite report which this process reads.

    On a single core nothing is gained.
    """
    if dask is None and len(inputs) == 1 and _read_here(inputs[0], jobs):
        with ahead.reading(inputs[0], reads_of(families)):
            yield
    else:
        yield


def _read_here(path: Path, jobs: int | None) -> bool:
    if path.suffix != ".sqlite" or not path.is_file():
        return False
    size = path.stat().st_size
    return size >= WORTH and processes(size, 1, jobs) == 1 and len(os.sched_getaffinity(0)) > 1

"""How modules are loaded: those that a command needs, and in a worker those that it is to run."""

from __future__ import annotations

import ctypes
import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

# What glibc keeps of memory that NumPy and SQLite give back, by the numbers of its options (malloc.h, mallopt(3)): up
# to 64 MB at the end of a heap, and pieces of up to 8 MB, in two heaps instead of eight a core. Else much of it goes to
# the system and comes back page by page: of a large report, three times the page faults.
KEPT = {-1: 1 << 26, -3: 1 << 23, -8: 2}


@contextmanager
def loading() -> Iterator[None]:
    """For imports. What is imported stays; to look through it for garbage takes a twentieth of a short run."""
    _keep_memory()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _keep_memory() -> None:
    """Have the C library keep memory for what is next, where it can be told to: others than glibc cannot."""
    with suppress(OSError, AttributeError):
        tell = ctypes.CDLL(None).mallopt
        for option, value in KEPT.items():
            tell(option, value)


def load_work() -> None:
    """Load what workers run."""
    with loading():
        importlib.import_module("nsys2prv.engine.translate")


def dask_setup(worker: Any) -> None:
    """What Dask calls in a worker before it works, where this module is one to load."""
    load_work()

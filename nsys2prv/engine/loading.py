"""How modules are loaded: those that a command needs, and in a worker those that it is to run."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def loading() -> Iterator[None]:
    """For imports. What is imported stays; to look through it for garbage takes a twentieth of a short run."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def load_work() -> None:
    """Load what workers run."""
    with loading():
        importlib.import_module("nsys2prv.engine.translate")


def dask_setup(worker: Any) -> None:
    """What Dask calls in a worker before it works, where this module is one to load."""
    load_work()

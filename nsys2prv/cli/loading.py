"""How modules are loaded that a command needs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """For imports. What is imported stays; to look through it for garbage takes a twentieth of a short run."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

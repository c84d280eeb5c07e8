"""Kinds of work on a device, as CUDA calls put it there."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class DeviceKind(Enum):
    """A kind of device work, by its name in sentences."""

    COMPUTE = "kernels or graphs"
    COPY = "copies"
    MEMSET = "memsets"
    GRAPH = "graphs"


class LaunchCount(NamedTuple):
    """Calls that put work on a device. `brief`: of them those that end so soon that they may have put none there."""

    calls: int = 0
    brief: int = 0

    @property
    def prove_work(self) -> bool:
        """Return True if there was work to record: brief calls may all set or copy 0 bytes."""
        return 2 * self.brief < self.calls

"""Kinds of work on a device, as CUDA calls put it there."""

from __future__ import annotations

from enum import Enum


class DeviceKind(Enum):
    """A kind of device work, by its name in sentences."""

    COMPUTE = "kernels or graphs"
    COPY = "copies"
    MEMSET = "memsets"
    GRAPH = "graphs"

"""Kinds of activities that analysis tells apart: work of devices, and calls of host threads."""

from __future__ import annotations

from typing import Literal

DeviceWork = Literal["kernel", "nccl", "graph", "copy"]
HostCall = Literal["cuda", "synchronization", "mpi", "os", "openmp"]

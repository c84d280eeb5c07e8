"""Small reports with NCCL's operations on the device, by the documentation of advanced tracing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from exports import PID, export, tid

COMMUNICATOR, ID = 2**64 - 5, 2**63 + 7
# Kinds of NVTX rows: ranges, and names of domains.
RANGE, NAME = 59, 75
Row = tuple[Any, ...]


def operation(start: int, end: int | None, text: str = "AllReduce", pid: int = PID, **payload: Any) -> Row:
    """A row of an operation on the device, with the payload that the recipes name."""
    given = {"commHash": COMMUNICATOR, "commRank": 0, "operationId": ID, "count": 1024, "dataType": "ncclFloat32"}
    known = {name: value for name, value in {**given, **payload}.items() if value is not None}
    return start, end, RANGE, tid(pid, pid), 1, text, json.dumps(known)


def call(start: int, end: int, text: str = "ncclAllReduce", pid: int = PID, **payload: Any) -> Row:
    """A row of a call, as NCCL itself annotates it."""
    given = {"NCCL communicator ID": COMMUNICATOR, "Message size [bytes]": 4096, **payload}
    return start, end, RANGE, tid(pid, pid), 1, text, json.dumps(given)


def report(path: Path, rows: list[Row], kernels: list[Row], pid: int = PID, **tables: Any) -> Path:
    """A report with NVTX rows of the domain NCCL, and kernels (start, end, stream, name), called at their start."""
    thread, process = tid(pid, pid), tid(0, pid)
    calls = [(start, start + 1, thread, n, "cudaLaunchKernel") for n, (start, *_) in enumerate(kernels, 1)]
    work = [(s, e, process, 0, 1, stream, n, name) for n, (s, e, stream, name) in enumerate(kernels, 1)]
    usual = {
        "PROCESSES": ("globalPid pid name", [(process, pid, "app")]),
        "NVTX_EVENTS": (
            "start end eventType globalTid domainId text jsonText",
            [(0, None, NAME, thread, 1, "NCCL", None), *rows],
        ),
        "CUPTI_ACTIVITY_KIND_RUNTIME": ("start end globalTid correlationId nameId", calls),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            "start end globalPid deviceId contextId streamId correlationId shortName",
            work,
        ),
    }
    return export(path, **{**usual, **tables})

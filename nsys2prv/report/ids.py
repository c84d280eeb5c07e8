"""Global ids of exports: the thread's id in bits 0 to 23, the process' in bits 24 to 47, host and machine above.

NVIDIA documents them with the SQLite schema: globalTid is of a thread, globalPid the same without a thread.
"""

from __future__ import annotations

from typing import TypeVar

import polars as pl

IDS_PER_FIELD = 1 << 24

Ids = TypeVar("Ids", pl.Expr, pl.Series)
AnyId = TypeVar("AnyId", int, pl.Expr, pl.Series)


def process_of(global_id: Ids) -> Ids:
    """Return the globalPid of a globalTid, or of a globalPid."""
    return global_id // IDS_PER_FIELD * IDS_PER_FIELD


def main_thread_of(global_pid: Ids) -> Ids:
    """Return the globalTid of a process' main thread, whose id is the process' own."""
    return global_pid + pid_of(global_pid)


def pid_of(global_id: AnyId) -> AnyId:
    """Return the id that the system gave the process of a globalPid or globalTid."""
    return global_id // IDS_PER_FIELD % IDS_PER_FIELD

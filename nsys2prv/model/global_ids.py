"""Global ids of exports: the thread's id in bits 0 to 23, the process' in bits 24 to 47, host and machine above.

NVIDIA documents them with the SQLite schema: globalTid is of a thread, globalPid the same without a thread.
"""

from __future__ import annotations

from typing import TypeVar

import polars as pl

IDS_PER_FIELD = 1 << 24

AnyId = TypeVar("AnyId", int, pl.Expr, pl.Series)


def process_of(global_id: AnyId) -> AnyId:
    """Return the globalPid of a globalTid, or of a globalPid."""
    return global_id // IDS_PER_FIELD * IDS_PER_FIELD


def main_thread_of(global_pid: AnyId) -> AnyId:
    """Return the globalTid of a process' main thread, whose id is the process' own."""
    return global_pid + pid_of(global_pid)


def is_main_thread(global_tid: int) -> bool:
    """Return True for the main thread of a process."""
    return global_tid == main_thread_of(process_of(global_tid))


def pid_of(global_id: AnyId) -> AnyId:
    """Return the id that the system gave the process of a globalPid or globalTid."""
    return global_id // IDS_PER_FIELD % IDS_PER_FIELD


def tid_of(global_tid: AnyId) -> AnyId:
    """Return the id that the system gave the thread of a globalTid."""
    return global_tid % IDS_PER_FIELD

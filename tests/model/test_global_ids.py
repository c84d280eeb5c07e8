"""Global ids hold the process, the thread, and the host."""

from __future__ import annotations

import polars as pl
import pytest

from nsys2prv.model.global_ids import is_main_thread, main_thread_of, pid_of, process_of, tid_of
from nsys2prv.model.interning import THREAD, Place, Places

HOST, PID = 3 << 48, 2605
PROCESS = HOST | PID << 24


@pytest.mark.parametrize("thread", [PID, PID + 1, 0, (1 << 24) - 1])
def test_a_global_id_has_its_parts(thread: int) -> None:
    global_tid = PROCESS | thread
    assert (process_of(global_tid), pid_of(global_tid), tid_of(global_tid)) == (PROCESS, PID, thread)
    assert is_main_thread(global_tid) == (thread == PID) == (main_thread_of(PROCESS) == global_tid)
    column = pl.DataFrame({"id": [global_tid]}).select(process=process_of(pl.col("id")), thread=tid_of(pl.col("id")))
    assert column.row(0) == (PROCESS, thread)
    places = Places()
    places.threads(pl.Series([global_tid]))
    assert places.table.row(0) == (*Place(THREAD, PROCESS, thread), 0)

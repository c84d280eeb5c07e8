"""Numbers of NVTX events: the same whatever is read at a time, and what plain SQL counts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from nccl_reports import operation, report
from runs import SAMPLES

from nsys2prv.families.nvtx_counts import nvtx_counts
from nsys2prv.model.limits import Limits
from nsys2prv.report.report import open_report

REPORTS = ("gpt-ddp/gpt-ddp.0.1.sqlite", "single/nvtx-attributes.sqlite", "single/saxpy.sqlite")


@pytest.mark.parametrize("name", REPORTS)
def test_pieces_of_a_few_rows_count_as_the_whole_table_does(name: str) -> None:
    """Names of domains stand in the first rows, and count for those of all pieces."""
    found = []
    for limits in (Limits(), Limits(piece_bytes=3000)):
        with open_report(SAMPLES / name) as one:
            found.append(nvtx_counts(one, limits))
    assert found[0] == found[1]
    with closing(sqlite3.connect(SAMPLES / name)) as database:
        kinds = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
        events = "SELECT count(*) FROM NVTX_EVENTS WHERE eventType IN (34, 59, 60, 65, 70, 71) AND start IS NOT NULL"
        rows = database.execute(events).fetchone()[0] if "NVTX_EVENTS" in kinds else 0
    assert sum(found[0]) == rows


def test_operations_of_every_piece_are_told_by_their_domain(tmp_path: Path) -> None:
    rows = [operation(110 + n, 800 + n, operationId=n) for n in range(50)]
    path = report(tmp_path / "r.sqlite", rows, [(100, 900, 7, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")])
    with open_report(path) as one:
        assert nvtx_counts(one, Limits(piece_bytes=2000)).operations == 50

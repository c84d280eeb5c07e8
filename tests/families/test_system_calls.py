"""System calls of a real report, against plain SQL."""

from pathlib import Path

import polars as pl
from exports import query

import nsys2prv

REPORT = Path(__file__).parents[1] / "data" / "system-calls" / "system-calls.sqlite"
# The profiler's own threads have no row.
BY_NAME = """
    SELECT value, count(*), sum(end - start) FROM SYSCALL JOIN StringIds ON id = nameId WHERE globalTid NOT IN
    (SELECT globalTid FROM ThreadNames JOIN StringIds ON id = nameId WHERE value LIKE '[NSys%')
    GROUP BY value ORDER BY value
"""


def test_system_calls_by_name_equal_sql(tmp_path: Path) -> None:
    result = nsys2prv.translate(REPORT, tmp_path / "trace", options=nsys2prv.RunOptions(every_thread=True))
    assert result.prv is not None
    calls = nsys2prv.read_prv(result.prv).intervals(70000260)
    sums = calls.group_by("label").agg(n=pl.len(), ns=(pl.col("end") - pl.col("start")).sum()).sort("label")
    assert sums.rows() == query(REPORT, BY_NAME)
    assert calls.height == result.rows["system_calls"] == 447

"""Profiler overhead is drawn as the report has it."""

from pathlib import Path

import polars as pl
from exports import query

import nsys2prv

REPORT = Path(__file__).parents[2] / "sample_reports" / "single" / "saxpy.sqlite"
BY_NAME = """
    SELECT value, count(*), sum(end - start) FROM PROFILER_OVERHEAD JOIN StringIds ON id = nameId
    WHERE globalTid IN (SELECT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME) GROUP BY value ORDER BY value
"""


def test_overhead_by_name_equals_sql(tmp_path: Path) -> None:
    families = nsys2prv.Selection(("cuda_api", "overhead"))
    result = nsys2prv.translate(REPORT, tmp_path / "trace", selection=families)
    assert result.prv is not None
    drawn = nsys2prv.read_prv(result.prv).intervals(70000231)
    sums = drawn.group_by("label").agg(n=pl.len(), ns=(pl.col("end") - pl.col("start")).sum()).sort("label")
    expected = query(REPORT, BY_NAME)
    assert expected
    assert sums.rows() == expected

"""What texts of a column contain, looked up once for each distinct text."""

import polars as pl
import pytest

from nsys2prv.analysis.frames import TEXT
from nsys2prv.analysis.text_columns import text_contains

NAMES = ["cudaMemcpy", None, "cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemcpy"]


@pytest.mark.parametrize("kind", [TEXT, pl.String()])
def test_a_text_is_found_in_each_of_its_rows(kind: pl.DataType) -> None:
    frame = pl.DataFrame({"name": NAMES}, schema={"name": kind})
    found = frame.select(text_contains("name", "^cudaMemcpy")).to_series()
    assert found.to_list() == [True, None, False, True, True]


def test_rows_are_chosen_beside_other_conditions() -> None:
    frame = pl.DataFrame({"name": NAMES, "start": range(5)}, schema={"name": TEXT, "start": pl.Int64()})
    kept = frame.filter(pl.col("start") > 0, ~text_contains("name", "Launch|Free"))
    assert kept["start"].to_list() == [3, 4]


def test_no_rows_contain_nothing() -> None:
    frame = pl.DataFrame(schema={"name": TEXT})
    assert frame.filter(text_contains("name", "a")).is_empty()

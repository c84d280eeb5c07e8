"""`nsys2prv.engine.combinations`: every row is found again behind its number, and none is kept twice."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import examples

from nsys2prv.engine.combinations import Points, combinations, together

SCHEMA = {"slot": pl.UInt16(), "value": pl.Int64(), "extent": pl.Int64()}
some_rows = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 1), st.integers(0, 2) | st.none()), max_size=20)


def frame(rows: list[tuple[int, int, int | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@examples(100)
@given(some_rows)
def test_each_row_once_and_found_by_its_number(rows: list[tuple[int, int, int | None]]) -> None:
    number, table = combinations(frame(rows))
    assert table[number].rows() == rows
    assert sorted(table.rows(), key=str) == sorted(set(rows), key=str)


def test_rows_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = pl.DataFrame.hash_rows

    def alike(rows: pl.DataFrame, seed: int = 0) -> pl.Series:
        return hashed(rows, seed=seed) if seed > 1 else pl.repeat(7, rows.height, dtype=pl.UInt64, eager=True)

    monkeypatch.setattr(pl.DataFrame, "hash_rows", alike)
    number, table = combinations(frame([(0, 1, None), (0, 2, 3), (0, 1, None)]))
    assert table.height == 2
    assert table[number].rows() == [(0, 1, None), (0, 2, 3), (0, 1, None)]


def points(*rows: tuple[int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"time": pl.Int64, "combination": pl.UInt32}, orient="row")


def test_numbers_of_further_points_go_on() -> None:
    ranges = Points(points((1, 0), (4, 1)), pl.DataFrame({"slot": [0, 0], "value": [7, 8]}))
    marks = Points(points((2, 0)), pl.DataFrame({"slot": [1], "value": [9], "colour": [5]}))
    both = together([ranges, marks])
    assert both.data.rows() == [(1, 0), (2, 2), (4, 1)]
    assert both.combinations is not None
    assert both.combinations.rows() == [(0, 7, None), (0, 8, None), (1, 9, 5)]

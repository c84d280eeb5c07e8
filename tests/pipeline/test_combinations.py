"""`nsys2prv.pipeline.store.combinations`: every row is found again behind its number, and none is kept twice."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import examples

from nsys2prv.pipeline.store.combinations import combinations, pairs_of
from nsys2prv.pipeline.store.points import Points, merged_points

SCHEMA = {"slot": pl.UInt16(), "value": pl.Int64(), "extent": pl.Int64()}
Row = tuple[int, int, int | None]
some_rows = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 1), st.integers(0, 2) | st.none()), max_size=20)


def frame(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@examples(100)
@given(some_rows)
def test_each_row_is_found_by_its_number_and_counted(rows: list[Row]) -> None:
    number, table = combinations(frame(rows))
    kept: list[Row] = [(slot, value, extent or None) for slot, value, extent in rows]
    assert table[number].select(*SCHEMA).rows() == kept
    assert table.height == len(set(rows))
    counted: Counter[tuple[int, ...]] = Counter()
    for *row, intervals in table.select(*SCHEMA, "intervals").rows():
        counted[tuple(row)] += intervals
    assert counted == Counter(kept)


def test_intervals_of_each_attribute_are_counted() -> None:
    _, table = combinations(frame([(0, 1, 3), (0, 1, 3), (0, 2, 4), (0, 2, 0), (0, 2, None)]))
    assert pairs_of(table) == {"extent": 3}
    assert pairs_of(table.drop("extent")) == {}


def test_rows_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = pl.DataFrame.hash_rows

    def alike(rows: pl.DataFrame, seed: int = 0) -> pl.Series:
        return hashed(rows, seed=seed) if seed > 1 else pl.repeat(7, rows.height, dtype=pl.UInt64, eager=True)

    monkeypatch.setattr(pl.DataFrame, "hash_rows", alike)
    number, table = combinations(frame([(0, 1, None), (0, 2, 3), (0, 1, None)]))
    assert table.height == 2
    assert table[number].rows() == [(0, 1, 2, None), (0, 2, 1, 3), (0, 1, 2, None)]


def points(*rows: tuple[int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"time": pl.Int64, "combination": pl.UInt32}, orient="row")


def test_numbers_of_further_points_go_on() -> None:
    ranges = Points(points((1, 0), (4, 1)), pl.DataFrame({"slot": [0, 0], "value": [7, 8]}))
    marks = Points(points((2, 0)), pl.DataFrame({"slot": [1], "value": [9], "color": [5]}))
    both = merged_points([ranges, marks])
    assert both.data.rows() == [(1, 0), (2, 2), (4, 1)]
    assert both.combinations is not None
    assert both.combinations.rows() == [(0, 7, None), (0, 8, None), (1, 9, 5)]

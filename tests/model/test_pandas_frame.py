"""Frames as pandas frames hold the same, with PyArrow and without."""

from __future__ import annotations

import sys

import polars as pl
import pytest

import nsys2prv


@pytest.fixture(autouse=True)
def no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every import of PyArrow fail, as where it is not installed."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)


def test_columns_keep_their_types_and_values() -> None:
    frame = nsys2prv.to_pandas(
        pl.DataFrame(
            {
                "time": pl.Series([2**60 + 1, -1], dtype=pl.Int64),
                "line": pl.Series([1, 2], dtype=pl.UInt32),
                "share": [0.5, 0.25],
                "chosen": [True, False],
                "label": ["é:;", ""],
                "ranks": [[0, 1], []],
            }
        )
    )
    assert {name: str(frame[name].dtype) for name in ("time", "line", "share", "chosen")} == {
        "time": "int64",
        "line": "uint32",
        "share": "float64",
        "chosen": "bool",
    }
    assert frame.to_numpy().tolist() == [
        [2**60 + 1, 1, 0.5, True, "é:;", [0, 1]],
        [-1, 2, 0.25, False, "", []],
    ]


def test_nulls_are_missing_and_integers_stay_exact() -> None:
    frame = nsys2prv.to_pandas(
        pl.DataFrame(
            {
                "time": pl.Series([2**60 + 1, None], dtype=pl.Int64),
                "small": pl.Series([7, None], dtype=pl.UInt8),
                "share": [0.5, None],
                "chosen": [True, None],
                "label": ["a", None],
            }
        )
    )
    assert {name: str(frame[name].dtype) for name in ("time", "small", "share", "chosen")} == {
        "time": "Int64",
        "small": "UInt8",
        "share": "float64",
        "chosen": "boolean",
    }
    assert frame.iloc[0].tolist() == [2**60 + 1, 7, 0.5, True, "a"]
    assert frame.iloc[1].isna().tolist() == [True] * 5


def test_a_frame_without_rows_has_its_columns() -> None:
    frame = nsys2prv.to_pandas(pl.DataFrame(schema={"time": pl.Int64, "label": pl.String}))
    assert list(frame.columns) == ["time", "label"]
    assert (len(frame), str(frame["time"].dtype)) == (0, "int64")

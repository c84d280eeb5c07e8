"""Numbers as texts: by their table where they are close together, one by one where not."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys2prv.paraver.lines import LEAST, number_texts

NEAR = st.integers(-3, 12)
ANY = st.integers(LEAST, 2**63 - 1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7, None, 7, 5], [":9:7", "", ":9:7", ":9:5"]),
        ([0, 2**62, None], [":9:0", f":9:{2**62}", ""]),
        ([LEAST, LEAST], [f":9:{LEAST}"] * 2),
        ([-1, None, 0], [":9:-1", "", ":9:0"]),
        ([None, None], ["", ""]),
        ([], []),
    ],
)
def test_each_number_stands_behind_the_text(values: list[int | None], expected: list[str]) -> None:
    assert number_texts(pl.Series(values, dtype=pl.Int64), ":9:").to_list() == expected


@given(st.lists(st.none() | NEAR) | st.lists(st.none() | ANY) | st.lists(NEAR | ANY))
def test_how_close_numbers_lie_makes_no_difference(values: list[int | None]) -> None:
    written = number_texts(pl.Series(values, dtype=pl.Int64), "t")
    assert written.to_list() == ["" if value is None else f"t{value}" for value in values]

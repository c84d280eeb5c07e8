"""From when to when iterations count, by their begins and by their ends."""

from __future__ import annotations

import polars as pl
import pytest

from nsys2prv.analysis.iterations.from_one_to_the_next import from_one_to_the_next, overlap_on_devices

# Of a run that was recorded from the middle of an epoch on: number, start, end. Each still runs when the one after the
# next begins.
OVERLAPPING = [(5, 0, 30), (6, 10, 50), (7, 20, 70), (0, 30, 95), (1, 40, 120)]
APART = [(5, 0, 9), (6, 10, 19), (7, 20, 29), (0, 30, 39), (1, 40, 49)]


def _spans(rows: list[tuple[int, int, int]]) -> pl.DataFrame:
    known = pl.DataFrame(rows, schema=["number", "start", "end"], orient="row")
    return known.with_columns(repeat=pl.lit(0))


@pytest.mark.parametrize(("rows", "overlap"), [(OVERLAPPING, True), (APART, False)])
def test_iterations_overlap_if_most_run_when_the_one_after_the_next_begins(
    rows: list[tuple[int, int, int]], overlap: bool
) -> None:
    assert overlap_on_devices(_spans(rows)) is overlap


@pytest.mark.parametrize(
    ("rows", "by_ends", "times"),
    [
        (OVERLAPPING, True, [(0, 30), (30, 50), (50, 70), (30, 95), (95, 120)]),
        (APART, False, [(0, 10), (10, 20), (20, 29), (30, 40), (40, 49)]),
    ],
)
def test_a_lower_number_begins_a_row_of_its_own(
    rows: list[tuple[int, int, int]], by_ends: bool, times: list[tuple[int, int]]
) -> None:
    found = from_one_to_the_next(_spans(rows), by_ends)
    assert found.select("begin", "until").rows() == times

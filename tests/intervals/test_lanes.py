"""Lanes given slice by slice, as for a large report, against those given at once; and merging of streams."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from timelines import examples

from nsys2prv.intervals.lanes import LanedIntervals, crossing_lanes, lanes

Row = tuple[int, int, int]
# Group, start, end; many meet, and empty ones have been made 1 ns long.
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(1, 14)), max_size=20)
BORDERS = st.sets(st.integers(1, 40), max_size=5)


def timeline(rows: list[Row]) -> list[Row]:
    """In order of start, as slices are."""
    return sorted(((group, start, start + length) for group, start, length in rows), key=lambda row: row[1])


def sliced(rows: list[Row], borders: set[int], crossing: bool) -> list[int]:
    """Lanes of the rows, each slice knowing of those before what may still be met."""
    held, found = LanedIntervals.none(), []
    ends = [*sorted(borders), 1_000]
    for low, high in zip([-1_000, *ends], ends, strict=False):
        part = np.array([row for row in rows if low <= row[1] < high], dtype=np.int64).reshape(-1, 3).T
        lane = (crossing_lanes if crossing else lanes)(*part, held)
        held = held.and_more(LanedIntervals(*part, lane)).kept(high)
        found += lane.tolist()
    return found


def meet(a: Row, b: Row, crossing: bool) -> bool:
    """Whether two intervals of one group cannot share a lane."""
    overlap = a[1] < b[2] and b[1] < a[2]
    nested = (a[1] <= b[1] and b[2] <= a[2]) or (b[1] <= a[1] and a[2] <= b[2])
    return a[0] == b[0] and overlap and not (crossing and nested)


@examples(200)
@given(ROWS, BORDERS, st.booleans())
def test_no_two_that_meet_share_a_lane(given_rows: list[Row], borders: set[int], crossing: bool) -> None:
    rows = timeline(given_rows)
    lane = sliced(rows, borders, crossing)
    for (n, a), (k, b) in combinations(enumerate(rows), 2):
        assert lane[n] != lane[k] or not meet(a, b, crossing)


@examples(200)
@given(ROWS, BORDERS, st.booleans())
def test_slices_give_the_same_lanes(given_rows: list[Row], borders: set[int], crossing: bool) -> None:
    rows = timeline(given_rows)
    assert sliced(rows, borders, crossing) == sliced(rows, set(), crossing)


@examples(200)
@given(ROWS, st.integers(0, 20), st.booleans())
def test_no_two_that_meet_share_a_lane_in_whatever_order_they_come(rows: list[Row], first: int, crossing: bool) -> None:
    """Device activity is in the slice of its call, and may begin before what is held."""
    give, every = (crossing_lanes if crossing else lanes), [(g, start, start + length) for g, start, length in rows]
    one, two = (np.array(part, dtype=np.int64).reshape(-1, 3).T for part in (every[:first], every[first:]))
    before = give(*one)
    lane = [*before, *give(*two, LanedIntervals(*one, before))]
    for (n, a), (k, b) in combinations(enumerate(every), 2):
        assert lane[n] != lane[k] or not meet(a, b, crossing)


def test_what_touches_one_that_is_held_shares_its_lane() -> None:
    held = LanedIntervals(*np.array([(0, 0, 10, 0), (0, 20, 30, 0)]).T)
    new = [(0, 10, 20), (0, 9, 20), (0, 10, 21), (0, 30, 40), (1, 5, 25)]
    assert [lanes(*np.array([row]).T, held).tolist() for row in new] == [[0], [1], [1], [0], [0]]

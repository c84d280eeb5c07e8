"""Spans of many groups in one pass, against each group by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys2prv.errors import UsageError
from nsys2prv.intervals.grouped import Axis, axis_over
from nsys2prv.intervals.spans import Spans, difference, intersection, one_span, overlapping, time_in, union

GROUPS = 3
TIMELINES = st.lists(st.tuples(st.integers(0, GROUPS - 1), st.integers(0, 30), st.integers(0, 12)), max_size=25)


def arrays(timeline: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    group, start, length = np.array(timeline, dtype=np.int64).reshape(-1, 3).T
    return group, start, start + length


def spans_of(timeline: list[tuple[int, int, int]], group: int) -> Spans:
    groups, start, end = arrays(timeline)
    return union(start[groups == group], end[groups == group])


@given(TIMELINES, TIMELINES, st.integers(5, 15), st.integers(16, 40))
def test_groups_on_one_axis_are_as_each_by_itself(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]], low: int, high: int
) -> None:
    window = one_span(low, high)
    axis = axis_over(window, GROUPS)
    a, b = axis.union(*arrays(one)), axis.union(*arrays(other))
    for together, by_itself in ((intersection(a, b), intersection), (difference(axis.spread(window), a), None)):
        sums = axis.sums(together)
        for group in range(GROUPS):
            own = intersection(spans_of(one, group), window)
            found = by_itself(own, spans_of(other, group)) if by_itself else difference(window, own)
            mine = axis.group(together.start) == group
            assert axis.time(together.start[mine]).tolist() == found.start.tolist()
            assert axis.time(together.end[mine]).tolist() == found.end.tolist()
            assert sums[group] == found.total()


@given(TIMELINES, st.integers(0, GROUPS - 1), st.integers(0, 45), st.integers(0, 45))
def test_time_inside_a_group_is_that_of_its_own_spans(
    timeline: list[tuple[int, int, int]], group: int, first: int, second: int
) -> None:
    axis = axis_over(one_span(0, 45), GROUPS)
    spans, times = axis.union(*arrays(timeline)), np.array([first, second])
    on_axis = time_in(spans, axis.at(np.array([group, group]), times))
    by_itself = time_in(spans_of(timeline, group), times)
    assert on_axis[1] - on_axis[0] == by_itself[1] - by_itself[0]


@given(TIMELINES, TIMELINES)
def test_overlapping_pairs_are_those_of_a_comparison_of_all(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]
) -> None:
    a = Spans(*arrays([(0, start, length + 1) for _, start, length in one])[1:])
    b = Spans(*arrays(sorted((0, start, length + 1) for _, start, length in other))[1:])
    pairs = list(zip(*(found.tolist() for found in overlapping(a, b)), strict=True))
    every = [(i, j) for i in range(len(one)) for j in range(len(other))]
    assert pairs == [(i, j) for i, j in every if a.start[i] < b.end[j] and b.start[j] < a.end[i]]


def test_a_group_below_0_is_left_out() -> None:
    axis = axis_over(one_span(0, 10), 2)
    spans = axis.union(np.array([-1, 1]), np.array([0, 2]), np.array([9, 5]))
    assert axis.sums(spans).tolist() == [0, 3]


@pytest.mark.parametrize("made", [Axis, lambda low, high, groups: axis_over(one_span(low, high), groups)])
def test_more_time_than_an_axis_holds_is_refused_with_advice(made: Callable[[int, int, int], Axis]) -> None:
    assert made(0, 1 << 60, 3).width == (1 << 60) + 1
    with pytest.raises(UsageError, match="choose a part with --time, or fewer reports"):
        made(0, 1 << 60, 8)

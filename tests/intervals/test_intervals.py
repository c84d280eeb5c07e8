"""Interval algebra against a slow, obvious version."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys2prv.intervals import lanes, nesting, spans

TIMELINES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 12)), max_size=25)


def arrays(timeline: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    group, start, length = np.array(timeline, dtype=np.int64).reshape(-1, 3).T
    return group, start, start + length


def covered(start: np.ndarray, end: np.ndarray) -> set[int]:
    return {t for a, b in zip(start, end, strict=True) for t in range(a, b)}


@given(TIMELINES)
def test_union_covers_the_same_instants_without_overlap(timeline: list[tuple[int, int, int]]) -> None:
    _, start, end = arrays(timeline)
    joined = spans.union(start, end)
    assert covered(*joined) == covered(start, end)
    assert joined.total() == len(covered(start, end))
    assert (joined.start[1:] > joined.end[:-1]).all()


def test_an_empty_interval_covers_nothing() -> None:
    joined = spans.union(np.array([3, 5, 5]), np.array([3, 8, 5]))
    assert (joined.start.tolist(), joined.end.tolist()) == ([5], [8])


@given(TIMELINES, TIMELINES)
def test_intersection_and_difference_are_those_of_sets(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]
) -> None:
    a = spans.union(*arrays(one)[1:])
    b = spans.union(*arrays(other)[1:])
    assert covered(*spans.intersection(a, b)) == covered(*a) & covered(*b)
    assert covered(*spans.difference(a, b)) == covered(*a) - covered(*b)
    # What only touches has nothing in common.
    assert all((found.end > found.start).all() for found in (spans.intersection(a, b), spans.difference(a, b)))


@given(st.lists(TIMELINES, max_size=3), st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1))
def test_times_inside_intervals_are_those_of_sets(
    timelines: list[list[tuple[int, int, int]]], pauses: list[tuple[int, int]]
) -> None:
    """Intervals that follow each other after pauses."""
    several = [spans.union(*arrays(timeline)[1:]) for timeline in timelines]
    pause, length = np.array(pauses).T
    end = np.cumsum(pause + length)
    found = spans.times_inside(several, end - length, end)
    expected = [
        [len(covered(*one) & {*range(a, b)}) for one in several] for a, b in zip(end - length, end, strict=True)
    ]
    assert found.tolist() == expected


@given(TIMELINES)
def test_reach_before_is_the_latest_end_of_the_earlier_ones_of_a_group(timeline: list[tuple[int, int, int]]) -> None:
    group, _, end = arrays(sorted(timeline, key=lambda one: one[1]))
    found = spans.reach_before(group, end)
    least = np.iinfo(np.int64).min
    assert found.tolist() == [max(end[:n][group[:n] == g], default=least) for n, g in enumerate(group)]


def test_of_those_that_begin_at_once_the_longest_has_the_first_lane() -> None:
    start, end = np.zeros(3, dtype=np.int64), np.array([3, 9, 6])
    assert lanes.lanes(np.zeros(3, dtype=np.int64), start, end).tolist() == [2, 0, 1]


@given(TIMELINES)
def test_lanes_never_overlap_and_are_as_few_as_the_deepest_overlap(timeline: list[tuple[int, int, int]]) -> None:
    group, start, end = arrays(timeline)
    lane = lanes.lanes(group, start, end)
    for g in set(group):
        here = group == g
        for k in set(lane[here]):
            members = here & (lane == k)
            assert len(covered(start[members], end[members])) == (end - start)[members].sum()
        instants = [((start[here] <= t) & (end[here] > t)).sum() for t in range(50)]
        assert max(lane[here], default=-1) + 1 == max(instants)


def crosses(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[0] < a[1] < b[1] or b[0] < a[0] < b[1] < a[1]


@settings(max_examples=300)
@given(TIMELINES)
def test_crossing_lanes_nest(timeline: list[tuple[int, int, int]]) -> None:
    group, start, end = arrays(timeline)
    lane = lanes.crossing_lanes(group, start, end)
    rows = list(zip(group, lane, start, end, strict=True))
    assert not any(crosses(a[2:], b[2:]) for a in rows for b in rows if a[:2] == b[:2])


@pytest.mark.parametrize(
    ("spans", "depth", "parent", "crossing"),
    [
        ([(0, 10), (2, 5), (5, 9), (6, 7)], [0, 1, 1, 2], [-1, 0, 0, 2], [False] * 4),
        ([(0, 10), (0, 10), (0, 4)], [0, 1, 2], [-1, 0, 1], [False] * 3),
        ([(0, 5), (5, 9)], [0, 0], [-1, -1], [False, False]),
        ([(0, 5), (3, 9)], [0, 1], [-1, 0], [True, True]),
    ],
)
def test_nesting_of_spans(
    spans: list[tuple[int, int]], depth: list[int], parent: list[int], crossing: list[bool]
) -> None:
    start, end = np.array(spans, dtype=np.int64).T
    found = nesting.nesting(np.zeros(len(spans), dtype=np.int64), start, end)
    assert found.depth.tolist() == depth
    assert found.parent.tolist() == parent
    assert found.crosses.tolist() == crossing


@settings(max_examples=300, deadline=None)
@given(TIMELINES, st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 45)), max_size=10))
def test_innermost_is_the_deepest_that_holds_the_instant(
    timeline: list[tuple[int, int, int]], instants: list[tuple[int, int]]
) -> None:
    group, start, end = arrays(timeline)
    nested = lanes.crossing_lanes(group, start, end) == 0
    group, start, end = group[nested], start[nested], end[nested]
    depth, parent, _ = nesting.nesting(group, start, end)
    at_group, at = np.array(instants, dtype=np.int64).reshape(-1, 2).T
    found = nesting.innermost(group, start, end, parent, at_group, at)
    for g, t, index in zip(at_group, at, found, strict=True):
        holding = np.flatnonzero((group == g) & (start <= t) & (t < end))
        assert index == max(holding, key=lambda i: depth[i], default=-1)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 30), st.integers(0, 12), st.integers(0, 3)), max_size=20))
def test_flatten_shows_the_highest_level_of_each_instant(timeline: list[tuple[int, int, int, int]]) -> None:
    group, start, length, level = np.array(timeline, dtype=np.int64).reshape(-1, 4).T
    pieces = list(zip(*spans.flatten(group, start, start + length, level), strict=True))
    shown = {(g, t): n for g, a, b, n in pieces for t in range(a, b)}
    expected: dict[tuple[int, int], int] = {}
    for g, a, n, k in sorted(timeline, key=lambda one: one[3]):
        expected |= {(g, t): k for t in range(a, a + n)}
    assert shown == expected
    # Disjoint, in order, and no two that could be one.
    assert all(a < b for _, a, b, _ in pieces)
    assert all(x[0] < y[0] or x[2] < y[1] or (x[2] == y[1] and x[3] != y[3]) for x, y in pairwise(pieces))


@given(TIMELINES, st.integers(-(2**60), 2**60), st.integers(1, 2**53), st.integers(1, 100_000))
def test_far_times_and_many_groups_change_nothing(
    timeline: list[tuple[int, int, int]], later: int, longer: int, apart: int
) -> None:
    """Products of times and groups beyond 64 bits, which thousands of threads and a wrong time would make."""
    group, start, end = arrays(timeline)
    far = group * apart, start * longer + later, end * longer + later
    assert (lanes.lanes(*far) == lanes.lanes(group, start, end)).all()
    assert (lanes.crossing_lanes(*far) == lanes.crossing_lanes(group, start, end)).all()
    near, pieces = spans.flatten(group, start, end, group % 2), spans.flatten(*far, group % 2)
    assert (pieces.start == near.start * longer + later).all()
    assert (pieces.end == near.end * longer + later).all()
    assert (pieces.group == near.group * apart).all()
    nested = lanes.crossing_lanes(group, start, end) == 0
    group, start, end = group[nested], start[nested], end[nested]
    _, parent, _ = nesting.nesting(group, start, end)
    found = nesting.innermost(group, start, end, parent, group, start)
    far = group * apart, start * longer + later, end * longer + later
    assert (nesting.innermost(*far, parent, far[0], far[1]) == found).all()


@given(TIMELINES, st.integers(0, 60), st.lists(st.tuples(st.booleans(), st.integers(0, 30)), min_size=40, max_size=40))
def test_what_is_settled_keeps_its_lanes_whatever_comes_later(
    timeline: list[tuple[int, int, int]], until: int, growth: list[tuple[bool, int]]
) -> None:
    group, start, end = arrays(timeline)
    end = np.maximum(end, start + 1)
    new = start >= until
    going_on = np.array([grows for grows, _ in growth[: len(start)]], dtype=bool) & ~new
    later = np.where(going_on & (np.array([by for _, by in growth[: len(start)]]) > 0), np.maximum(end, until + 1), end)
    settled = np.zeros(len(start), dtype=bool)
    settled[~new] = lanes.keep_lanes(group[~new], start[~new], end[~new], going_on[~new], until)
    whole = lanes.crossing_lanes(group, start, later)
    alone = lanes.crossing_lanes(group[settled], start[settled], end[settled])
    assert not (settled & going_on).any()
    assert (whole[settled] == alone).all()


def test_what_is_held_by_what_goes_on_is_settled_and_what_it_may_cross_is_not() -> None:
    # Held; begun before; after the end so far of what goes on; of another group.
    group, start, end = np.array([[0, 10, 50], [0, 12, 14], [0, 8, 11], [0, 52, 55], [1, 8, 11]]).T
    going_on = np.array([True, False, False, False, False])
    assert lanes.keep_lanes(group, start, end, going_on, 100).tolist() == [False, True, False, False, True]
    assert lanes.keep_lanes(group, start, end, going_on, 13).tolist() == [False, False, False, False, True]

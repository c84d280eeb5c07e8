"""Union, intersection and difference of intervals, and the highest level where they overlap.

Intervals are half open, [start, end), times int64 ns. Functions take numpy arrays of equal length; those with a `group`
treat every group by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Before any time, and any position on an axis of groups.
BEFORE_ALL = np.int64(-(1 << 62))


class Span(NamedTuple):
    """One span of time, [start, end) in ns."""

    start: int
    end: int


class Spans(NamedTuple):
    """Disjoint intervals in order of time."""

    start: Times
    end: Times

    def total(self) -> int:
        """Sum of the lengths (ns)."""
        return int((self.end - self.start).sum())


def one_span(low: int, high: int) -> Spans:
    """Return a single interval as spans."""
    return Spans(np.array([low], dtype=np.int64), np.array([high], dtype=np.int64))


def union(start: Times, end: Times) -> Spans:
    """Return disjoint intervals that cover the same time as the given ones. Empty ones cover nothing."""
    some = end > start
    start, end = start[some], end[some]
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order]) if len(end) else end
    opens = np.ones(len(start), dtype=bool)
    opens[1:] = start[1:] > reach[:-1]
    closes = np.append(opens[1:], True)[: len(start)]
    return Spans(start[opens], reach[closes])


def overlapping(a: Spans, b: Spans) -> tuple[Indices, Indices]:
    """Return the pairs of an interval of `a` and one of `b` that overlap, by index, in order of `a`, then `b`.

    The intervals of `b` come in order of start. Neither has to be disjoint.
    """
    reach = np.maximum.accumulate(b.end) if len(b.end) else b.end
    first = np.searchsorted(reach, a.start, side="right")
    count = np.maximum(np.searchsorted(b.start, a.end, side="left") - first, 0)
    one = np.repeat(np.arange(len(a.start)), count)
    other = np.arange(len(one)) - np.repeat(np.cumsum(count) - count - first, count)
    real = b.end[other] > a.start[one]
    return one[real], other[real]


def intersection(a: Spans, b: Spans) -> Spans:
    """Return the time that both cover."""
    if len(a.start) > len(b.start):
        a, b = b, a
    one, other = overlapping(a, b)
    start, end = np.maximum(a.start[one], b.start[other]), np.minimum(a.end[one], b.end[other])
    some = end > start
    return Spans(start[some], end[some])


def difference(a: Spans, b: Spans) -> Spans:
    """Return the time that `a` covers and `b` does not."""
    if not len(a.start):
        return a
    low, high = a.start[0], a.end[-1]
    inside = (b.end > low) & (b.start < high)
    gaps_start = np.append(low, np.maximum(b.end[inside], low))
    gaps_end = np.append(np.minimum(b.start[inside], high), high)
    some = gaps_end > gaps_start
    return intersection(a, Spans(gaps_start[some], gaps_end[some]))


def time_in(spans: Spans, until: Times) -> Times:
    """Return the time (ns) that disjoint spans cover before each of some instants."""
    covered = np.cumsum(spans.end - spans.start)
    # Within the last span that begins by then, the covered time is the instant less what lies uncovered before it.
    end, uncovered = np.append(BEFORE_ALL, spans.end), np.append(BEFORE_ALL, spans.end - covered)
    index = np.searchsorted(spans.start, until, side="right")
    total: Times = np.minimum(until, end[index])
    total -= uncovered[index]
    return total


def inside(spans: Spans, instants: Times) -> Mask:
    """Return True for the instants that disjoint spans cover."""
    covered: Mask = time_in(spans, instants + 1) > time_in(spans, instants)
    return covered


def first_of_equals(values: npt.NDArray[np.integer[Any]]) -> Mask:
    """Return True for the first of each row of equal values."""
    mask: Mask = np.append(True, values[1:] != values[:-1])[: len(values)]
    return mask


def reach_before(group: Indices, end: Times) -> Times:
    """Return the latest end of the intervals before each one in its group; the least integer for the first.

    Intervals come in order of start. See reach_so_far for few groups, already in order.
    """
    order = np.argsort(group, kind="stable")
    group, end = group[order], end[order]
    by_end = np.argsort(end, kind="stable")
    rank = np.empty(len(end), dtype=np.int64)
    rank[by_end] = np.arange(len(end))
    opens = first_of_equals(group)
    # Ranks of each group are above all those of the groups before it, so that one pass finds the highest of each.
    above = np.cumsum(opens) * len(end)
    highest = np.maximum.accumulate(above + rank) - above
    reach = np.empty(len(end), dtype=np.int64)
    reach[order] = np.where(opens, np.iinfo(np.int64).min, np.roll(end[by_end[highest]], 1))
    return reach


def reach_so_far(group: Indices, end: Times) -> Times:
    """Return the latest end of each interval and those before it in its group, which come one group after the other.

    Quicker than reach_before where the groups are few.
    """
    latest = np.empty_like(end)
    borders = [0, *(np.flatnonzero(group[1:] != group[:-1]) + 1), len(group)]
    for low, high in pairwise(borders):
        latest[low:high] = np.maximum.accumulate(end[low:high])
    return latest


def times_inside(spans: Sequence[Spans], start: Times, end: Times) -> npt.NDArray[np.float64]:
    """Return the time (ns) of each of several spans inside each of one or more disjoint intervals in order of time.

    A row an interval, a column a `Spans`.
    """
    if not spans:
        return np.zeros((len(start), 0))
    near = [slice(np.searchsorted(s.end, start[0], "right"), np.searchsorted(s.start, end[-1], "left")) for s in spans]
    low, high = (np.concatenate([s[side][own] for s, own in zip(spans, near, strict=True)]) for side in (0, 1))
    column = np.repeat(np.arange(len(spans)), [own.stop - own.start for own in near])
    span, interval = overlapping(Spans(low, high), Spans(start, end))
    lasting = np.minimum(high[span], end[interval]) - np.maximum(low[span], start[interval])
    cells = interval * len(spans) + column[span]
    times = np.bincount(cells, lasting, len(start) * len(spans)).astype(np.float64, copy=False)
    return times.reshape(len(start), len(spans))


class LevelPieces(NamedTuple):
    """Disjoint pieces in order of group and time, each with its highest level."""

    group: Indices
    start: Times
    end: Times
    level: Indices


def flatten(group: Indices, start: Times, end: Times, level: Indices) -> LevelPieces:
    """Return the highest level at each instant, for each group; neighbors of one level are one piece.

    Groups and levels count from 0. Empty intervals cover nothing.
    """
    if not len(start):
        return LevelPieces(group, start, end, level)
    times, changed = np.unique(np.concatenate([start, end]), return_inverse=True)
    width = len(times)
    moment = np.tile(group, 2) * width + changed
    order = np.argsort(moment, kind="stable")
    moment, step = moment[order], np.repeat([1, -1], len(start))[order]
    levels = np.tile(level, 2)[order]
    top = np.full(len(moment), -1, dtype=np.int64)
    for one in np.unique(level):
        top = np.where(np.cumsum(np.where(levels == one, step, 0)) > 0, one, top)
    settled = np.append(moment[1:] != moment[:-1], True)
    moment, top = moment[settled], top[settled]
    changes = first_of_equals(top)
    moment, top = moment[changes], top[changes]
    covered = np.flatnonzero(top >= 0)
    begins, ends = moment[covered], moment[covered + 1]
    return LevelPieces(begins // width, times[begins % width], times[ends % width], top[covered])

"""Algebra of intervals by columns. Intervals are half open, [start, end), times int64 ns.

Functions take numpy arrays of equal length; those with a `group` treat every group by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


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
    """Disjoint intervals that cover what any of the given ones covers. Empty ones cover nothing."""
    some = end > start
    start, end = start[some], end[some]
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order]) if len(end) else end
    opens = np.ones(len(start), dtype=bool)
    opens[1:] = start[1:] > reach[:-1]
    closes = np.append(opens[1:], True)[: len(start)]
    return Spans(start[opens], reach[closes])


def intersection(a: Spans, b: Spans) -> Spans:
    """What both cover."""
    start = np.concatenate([a.start, b.start])
    change = np.concatenate([start, a.end, b.end])
    step = np.concatenate([np.ones(len(start), np.int64), -np.ones(len(start), np.int64)])
    order = np.lexsort((step, change))
    change, depth = change[order], np.cumsum(step[order])
    both = np.flatnonzero(depth == 2)
    return Spans(change[both], change[both + 1])


def difference(a: Spans, b: Spans) -> Spans:
    """What `a` covers and `b` does not."""
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
    before = np.concatenate([[0], np.cumsum(spans.end - spans.start)])
    index = np.searchsorted(spans.start, until, side="right")
    if not len(spans.start):
        return np.zeros(len(until), dtype=np.int64)
    last = np.maximum(index - 1, 0)
    left = np.where(index > 0, np.minimum(until, spans.end[last]) - spans.start[last], 0)
    total: Times = before[last] + left
    return total


class Held(NamedTuple):
    """Intervals that have their lanes already: those of an earlier slice of time which others may still meet."""

    group: Indices
    start: Times
    end: Times
    lane: Indices

    @classmethod
    def none(cls) -> Held:
        """No intervals."""
        return cls(*(np.zeros(0, dtype=np.int64) for _ in cls._fields))

    def of(self, groups: Indices) -> Held:
        """Those of some groups."""
        if not len(self.group):
            return self
        chosen = np.isin(self.group, np.unique(groups))
        return Held(*(column[chosen] for column in self))

    def kept(self, since: int) -> Held:
        """Those that end after a time."""
        lasting = self.end > since
        return Held(*(column[lasting] for column in self))

    def and_more(self, other: Held) -> Held:
        """These and others."""
        return Held(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def lanes(group: Indices, start: Times, end: Times, held: Held | None = None) -> Indices:
    """Lane of each interval such that no two of one group and lane overlap: the first free one in order of start.

    First fit in that order uses as few lanes as intervals ever overlap. Lanes count from 0. None overlaps one of `held`
    in its lane.
    """
    lane = np.zeros(len(start), dtype=np.int64)
    left = _crowded(group, start, end, held)
    left = left[np.lexsort((-end[left], start[left], group[left]))]
    level = 0
    while len(left):
        free = left[~_overlapping(group[left], start[left], end[left], held, level)]
        kept = free[_chain(group[free], start[free], end[free])] if len(free) else free
        lane[kept] = level
        left, level = left[~np.isin(left, kept)], level + 1
    return lane


def _overlapping(group: Indices, start: Times, end: Times, held: Held | None, level: int) -> Mask:
    """Which intervals overlap one that is held in their group and this lane, where no two overlap."""
    found = np.zeros(len(start), dtype=bool)
    for near, starts, ends in _held_near(group, start, held, level):
        order = np.argsort(starts)
        following = np.searchsorted(ends[order], start[near], side="right")
        begins = np.append(starts[order], np.iinfo(np.int64).max)[following]
        found[near] = begins < end[near]
    return found


def _held_near(group: Indices, start: Times, held: Held | None, level: int) -> Iterator[tuple[Indices, Times, Times]]:
    """For each group with held intervals in this lane: what begins before they end, and their starts and ends."""
    if held is None:
        return
    in_lane = held.lane == level
    for one in np.unique(held.group[in_lane]):
        here = in_lane & (held.group == one)
        near = np.flatnonzero((group == one) & (start < held.end[here].max()))
        if len(near):
            yield near, held.start[here], held.end[here]


def _crowded(group: Indices, start: Times, end: Times, held: Held | None = None) -> Indices:
    """Indices of the intervals in a cluster of their group that overlap: the others are alone in their time.

    With those that may meet one that is held.
    """
    if held is not None and len(held.end):
        meeting = np.isin(group, held.group) & (start < held.end.max())
        return np.union1d(np.flatnonzero(meeting), _crowded(group, start, end))
    if not len(start):
        return np.zeros(0, dtype=np.int64)
    # Reports are nearly in order of time: two stable sorts are quicker than one by both keys.
    order = np.argsort(start, kind="stable")
    order = order[np.argsort(group[order], kind="stable")]
    group, start, end = group[order], start[order], end[order]
    opens = np.ones(len(start), dtype=bool)
    opens[1:] = (group[1:] != group[:-1]) | (start[1:] >= _reach(group, end)[:-1])
    if opens.all():
        return np.zeros(0, dtype=np.int64)
    cluster = np.cumsum(opens) - 1
    crowded: Indices = order[np.bincount(cluster)[cluster] > 1]
    return crowded


def _reach(group: Indices, end: Times) -> Times:
    """Latest end so far within each group of rows sorted by group."""
    latest = np.empty_like(end)
    borders = [0, *(np.flatnonzero(group[1:] != group[:-1]) + 1), len(group)]
    for low, high in pairwise(borders):
        latest[low:high] = np.maximum.accumulate(end[low:high])
    return latest


def _chain(group: Indices, start: Times, end: Times) -> Mask:
    """Of intervals sorted by (group, start): each group's first, then always the next that begins past the kept end."""
    count = len(start)
    first = np.ones(count, dtype=bool)
    first[1:] = group[1:] != group[:-1]
    following = _next_free(start, end, first)
    kept = first.copy()
    jump = np.append(following, count)
    # Pointer doubling: after k rounds everything within 2**k steps of a first one is marked.
    while True:
        reached = kept.copy()
        targets = jump[:-1][kept]
        reached[targets[targets < count]] = True
        if (reached == kept).all():
            return kept
        kept, jump = reached, jump[jump]


def _next_free(start: Times, end: Times, first: Mask) -> Indices:
    """Index of the first interval of the same group that begins at or after each one's end; the count if none.

    Intervals are sorted by group and start; `first` marks where a group begins.
    """
    count = len(start)
    rank = np.cumsum(first) - 1
    values, dense = np.unique(np.concatenate([start, end]), return_inverse=True)
    width = len(values)
    found = np.searchsorted(rank * width + dense[:count], rank * width + dense[count:], side="left")
    last = np.append(np.flatnonzero(first)[1:], count)
    # An empty interval must not be its own successor.
    found = np.maximum(found, np.arange(count) + 1)
    return np.where(found < last[rank], found, count)


class Nesting(NamedTuple):
    """Depth of each interval (0 outermost), index of its parent (-1: none), and whether it crosses another."""

    depth: Indices
    parent: Indices
    crosses: Mask


def nesting(group: Indices, start: Times, end: Times) -> Nesting:
    """Nesting of the intervals of each group (none of them empty), as a stack of begins and ends would see it.

    Ends come before begins at equal times, longer ones open first. An interval crosses when the end that pops it is
    another's: pairs that overlap without one holding the other.
    """
    count = len(start)
    index = np.arange(count)
    # Begins and ends as one sequence a group.
    time = np.concatenate([start, end])
    who = np.concatenate([index, index])
    begins = np.repeat([True, False], count)
    length = np.concatenate([-(end - start), end - start])
    # Among equal ends the one that began last closes first; among equal begins the longer opens first.
    order = np.lexsort((np.where(begins, who, -who), length, begins, time, np.concatenate([group, group])))
    who, begins = who[order], begins[order]
    level = np.cumsum(np.where(begins, 1, -1)) - begins
    # At one level begins and ends alternate; the pair is a begin and the end after it.
    by_level = np.lexsort((np.arange(2 * count), level))
    pairs = who[by_level].reshape(-1, 2)
    crosses = np.zeros(count, dtype=bool)
    odd = pairs[:, 0] != pairs[:, 1]
    crosses[pairs[odd].ravel()] = True
    depth = np.empty(count, dtype=np.int64)
    depth[who[begins]] = level[begins]
    return Nesting(depth, _parents(who, begins, level, count), crosses)


def _parents(who: Indices, begins: Mask, level: Indices, count: int) -> Indices:
    """For begins in order: the last begin one level up."""
    parent = np.full(count, -1, dtype=np.int64)
    order, depth = who[begins], level[begins]
    position = np.arange(len(order))
    for d in range(1, int(depth.max(initial=0)) + 1):
        outer = np.flatnonzero(depth == d - 1)
        here = position[depth == d]
        parent[order[here]] = order[outer[np.searchsorted(outer, here) - 1]]
    return parent


class Pieces(NamedTuple):
    """Disjoint pieces in order of group and time, with the level of what covers each."""

    group: Indices
    start: Times
    end: Times
    level: Indices


def flatten(group: Indices, start: Times, end: Times, level: Indices) -> Pieces:
    """What the highest level covers at each instant, for each group; neighbours of one level are one piece.

    Groups and levels count from 0. Empty intervals cover nothing.
    """
    if not len(start):
        return Pieces(group, start, end, level)
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
    changes = np.append(True, top[1:] != top[:-1])
    moment, top = moment[changes], top[changes]
    covered = np.flatnonzero(top >= 0)
    begins, ends = moment[covered], moment[covered + 1]
    return Pieces(begins // width, times[begins % width], times[ends % width], top[covered])


def innermost(group: Indices, start: Times, end: Times, parent: Indices, at_group: Indices, at: Times) -> Indices:
    """Index of the innermost interval of each instant's group that holds it, -1 where none does.

    The intervals nest (none is empty, none crosses); `parent` is what `nesting` says of them. Groups count from 0.
    """
    count = len(start)
    if not count:
        return np.full(len(at), -1, dtype=np.int64)
    # By their order instead of their values: a product of times and groups may be too large for 64 bits.
    times, changed = np.unique(np.concatenate([start, end]), return_inverse=True)
    width = len(times) + 1
    index = np.arange(count)
    begins = np.repeat([True, False], count)
    length = np.concatenate([-(end - start), end - start])
    moment = np.tile(group, 2) * width + changed + 1
    # As `nesting` orders them: what is open after the last change at a moment is open until the next.
    order = np.lexsort((np.where(begins, np.tile(index, 2), -np.tile(index, 2)), length, begins, moment))
    open_after = np.concatenate([index, parent])[order]
    asked = at_group * width + np.searchsorted(times, at, side="right")
    last_change = np.searchsorted(moment[order], asked, side="right") - 1
    found: Indices = np.where(last_change >= 0, open_after[last_change], -1)
    return found


def crossing_lanes(group: Indices, start: Times, end: Times, held: Held | None = None) -> Indices:
    """Lane of each interval such that those of one group and lane nest.

    One that begins within an earlier one and ends after it moves to the first further lane in which it overlaps none.
    What comes later has no say in this, so that slices of time, with what is `held`, have the lanes of the whole.
    """
    lane = np.zeros(len(start), dtype=np.int64)
    near = _crowded(group, start, end, held)
    known = Held.none() if held is None else held.of(group[near])
    together = [np.concatenate(pair) for pair in zip(known[:3], (group[near], start[near], end[near]), strict=True)]
    if not nesting(together[0], together[1], together[2]).crosses.any():
        return lane
    moves = _crossing_earlier(*together)[len(known.start) :] | _before_held(group[near], start[near], known)
    moved, above = near[moves], known.lane > 0
    further = Held(known.group[above], known.start[above], known.end[above], known.lane[above] - 1)
    lane[moved] = 1 + lanes(group[moved], start[moved], end[moved], further)
    return lane


def _crossing_earlier(group: Indices, start: Times, end: Times) -> Mask:
    """Which intervals begin within another of their group that begins before them, and end after it."""
    count = len(start)
    order = np.lexsort((-end, start, group))
    # Times by their order, groups one after the other.
    times, dense = np.unique(np.concatenate([start, end]), return_inverse=True)
    groups = np.unique(group, return_inverse=True)[1]
    moment = np.unique(np.tile(groups, 2) * len(times) + dense, return_inverse=True)[1]
    begins, ends = moment[:count][order], moment[count:][order]
    crosses = np.zeros(count, dtype=bool)
    position, width, span = np.arange(count), 1, 2 * count
    # Whoever comes before another is in the left half of just one block that has the other in its right half.
    while width < count:
        half = position // width
        right = half % 2 == 1
        left_ends = np.sort(half[~right] * span + ends[~right])
        left = (half[right] - 1) * span
        following = np.searchsorted(left_ends, left + begins[right], side="right")
        crosses[right] |= np.append(left_ends, np.iinfo(np.int64).max)[following] < left + ends[right]
        width *= 2
    found = np.zeros(count, dtype=bool)
    found[order] = crosses
    return found


def _before_held(group: Indices, start: Times, held: Held) -> Mask:
    """Which intervals begin before one of their group that is held, as those of later slices do not as a rule."""
    order = np.lexsort((held.start, held.group))
    groups, starts = held.group[order], held.start[order]
    last = np.searchsorted(groups, group, side="right") - 1
    known = np.isin(group, groups)
    before = np.zeros(len(group), dtype=bool)
    before[known] = start[known] < starts[last[known]]
    return before


def settled(group: Indices, start: Times, end: Times, going_on: Mask, until: int) -> Mask:
    """Which intervals keep their lanes whatever comes later, where that begins at `until` at the earliest.

    `going_on`: those whose end may yet grow; they are not settled, and hold what lies within them. Intervals that
    overlap settle together, unless all that goes on holds them or begins after them.
    """
    found = np.zeros(len(start), dtype=bool)
    for one in np.unique(group):
        done = np.flatnonzero((group == one) & ~going_on)
        if not len(done):
            continue
        done = done[np.argsort(start[done], kind="stable")]
        reach = np.maximum.accumulate(end[done])
        opens = np.append(True, start[done][1:] >= reach[:-1])
        first, last = start[done][opens], reach[np.append(opens[1:], True)]
        holders = np.flatnonzero((group == one) & going_on)
        holders = holders[np.argsort(start[holders], kind="stable")]
        around = np.searchsorted(start[holders], first, side="right")
        held_to = np.append(np.iinfo(np.int64).max, np.minimum.accumulate(end[holders]))[around]
        apart = around == np.searchsorted(start[holders], last, side="left")
        found[done] = (apart & (last <= np.minimum(held_to, until)))[np.cumsum(opens) - 1]
    return found

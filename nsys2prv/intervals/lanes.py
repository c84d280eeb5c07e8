"""Lanes for intervals that overlap or cross, the same for slices of time as for the whole. See spans for the form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nsys2prv.intervals.nesting import nesting
from nsys2prv.intervals.spans import Indices, Mask, Times, first_of_equals, reach_so_far


class LanedIntervals(NamedTuple):
    """Intervals of earlier slices of time that have lanes already, and that later intervals may still meet."""

    group: Indices
    start: Times
    end: Times
    lane: Indices

    @classmethod
    def none(cls) -> LanedIntervals:
        """Return no intervals."""
        return cls(*(np.zeros(0, dtype=np.int64) for _ in cls._fields))

    def of(self, groups: Indices) -> LanedIntervals:
        """Return the intervals of some groups."""
        if not len(self.group):
            return self
        chosen = np.isin(self.group, np.unique(groups))
        return LanedIntervals(*(column[chosen] for column in self))

    def kept(self, since: int) -> LanedIntervals:
        """Return the intervals that end after a time."""
        lasting = self.end > since
        return LanedIntervals(*(column[lasting] for column in self))

    def and_more(self, other: LanedIntervals) -> LanedIntervals:
        """Return these intervals and others."""
        return LanedIntervals(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def lanes(group: Indices, start: Times, end: Times, held: LanedIntervals | None = None) -> Indices:
    """Assign each interval the first lane of its group that is free, in order of start: none of one lane overlap.

    First fit in that order uses as few lanes as intervals ever overlap. Lanes count from 0. None overlaps one of `held`
    in its lane.
    """
    lane = np.zeros(len(start), dtype=np.int64)
    left = _crowded(group, start, end, held)
    left = left[np.lexsort((-end[left], start[left], group[left]))]
    number = 0
    while len(left):
        free = left[~_overlapping(group[left], start[left], end[left], held, number)]
        kept = free[_chain(group[free], start[free], end[free])] if len(free) else free
        lane[kept] = number
        left, number = left[~np.isin(left, kept)], number + 1
    return lane


def _overlapping(group: Indices, start: Times, end: Times, held: LanedIntervals | None, number: int) -> Mask:
    """Mark intervals that overlap one that is held in their group and in lane `number`, where no two overlap."""
    found = np.zeros(len(start), dtype=bool)
    if held is None:
        return found
    in_lane = held.lane == number
    for one in np.unique(held.group[in_lane]):
        here = in_lane & (held.group == one)
        order = np.argsort(held.start[here])
        starts, ends = held.start[here][order], held.end[here][order]
        near = np.flatnonzero((group == one) & (start < ends.max()))
        following = np.searchsorted(ends, start[near], side="right")
        found[near] = np.append(starts, np.iinfo(np.int64).max)[following] < end[near]
    return found


def _crowded(group: Indices, start: Times, end: Times, held: LanedIntervals | None = None) -> Indices:
    """Return indices of intervals that overlap others of their group: all others are alone in their time.

    Intervals that may meet a held one are among them.
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
    opens[1:] = (group[1:] != group[:-1]) | (start[1:] >= reach_so_far(group, end)[:-1])
    if opens.all():
        return np.zeros(0, dtype=np.int64)
    cluster = np.cumsum(opens) - 1
    crowded: Indices = order[np.bincount(cluster)[cluster] > 1]
    return crowded


def _chain(group: Indices, start: Times, end: Times) -> Mask:
    """Mark, of intervals sorted by (group, start), each group's first, then always the next past the marked end."""
    count = len(start)
    first = first_of_equals(group)
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
    """Return the index of the first interval of the group at or after each one's end; the count if none.

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


def crossing_lanes(group: Indices, start: Times, end: Times, held: LanedIntervals | None = None) -> Indices:
    """Assign lanes to intervals such that those of one group and lane nest.

    An interval that begins within an earlier one and ends after it moves to the first further lane where it overlaps
    none. Later intervals change nothing, so that slices of time, given `held`, have the same lanes as the whole report.
    """
    lane = np.zeros(len(start), dtype=np.int64)
    near = _crowded(group, start, end, held)
    known = LanedIntervals.none() if held is None else held.of(group[near])
    together = [np.concatenate(pair) for pair in zip(known[:3], (group[near], start[near], end[near]), strict=True)]
    if not nesting(together[0], together[1], together[2]).crosses.any():
        return lane
    moves = _crossing_earlier(*together)[len(known.start) :] | _before_held(group[near], start[near], known)
    moved, above = near[moves], known.lane > 0
    further = LanedIntervals(known.group[above], known.start[above], known.end[above], known.lane[above] - 1)
    lane[moved] = 1 + lanes(group[moved], start[moved], end[moved], further)
    return lane


def _crossing_earlier(group: Indices, start: Times, end: Times) -> Mask:
    """Mark intervals that begin within another of their group that begins before them, and end after it."""
    count = len(start)
    order = np.lexsort((-end, start, group))
    # Times by their order, groups one after the other.
    times, dense = np.unique(np.concatenate([start, end]), return_inverse=True)
    groups = np.unique(group, return_inverse=True)[1]
    moment = np.unique(np.tile(groups, 2) * len(times) + dense, return_inverse=True)[1]
    begins, ends = moment[:count][order], moment[count:][order]
    crosses = np.zeros(count, dtype=bool)
    position, width, span = np.arange(count), 1, 2 * count
    # For each pair, exactly one block has the earlier interval in its left half and the later one in its right half.
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


def _before_held(group: Indices, start: Times, held: LanedIntervals) -> Mask:
    """Mark intervals that begin before a held one of their group, which is rare in later slices."""
    order = np.lexsort((held.start, held.group))
    groups, starts = held.group[order], held.start[order]
    last = np.searchsorted(groups, group, side="right") - 1
    known = np.isin(group, groups)
    before = np.zeros(len(group), dtype=bool)
    before[known] = start[known] < starts[last[known]]
    return before


def keep_lanes(group: Indices, start: Times, end: Times, going_on: Mask, until: int) -> Mask:
    """Mark intervals that keep their lanes whatever later slices hold, which begin at `until` (ns) or after.

    `going_on`: those whose end may yet grow; they are not settled, and hold what lies within them. Intervals that
    overlap settle together: once they have ended, if every one that goes on holds them all or begins after them.
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

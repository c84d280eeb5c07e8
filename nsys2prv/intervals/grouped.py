"""Spans of many groups in one pass: each group has a stretch of its own on one long axis."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nsys2prv.errors import UsageError
from nsys2prv.intervals.spans import Indices, Spans, Times, union

# Positions on an axis are int64.
LONGEST_AXIS = 1 << 62
# In place of the group of what has none.
NO_GROUP = -1


@dataclass(frozen=True)
class Axis:
    """An axis on which each of `groups` groups has the times from `low` to `high` (ns), a nanosecond apart.

    Raises UsageError where the time of all groups is too long for one axis.
    """

    low: int
    high: int
    groups: int

    def __post_init__(self) -> None:
        """Check that positions fit."""
        if self.width * max(self.groups, 1) > LONGEST_AXIS:
            raise UsageError(
                f"{self.high - self.low} ns of {self.groups:,} devices or threads are too long to analyze together; "
                "choose a part with --time, or fewer reports"
            )

    @property
    def width(self) -> int:
        """Return the length of a group's stretch (ns)."""
        return self.high - self.low + 1

    def at(self, group: Indices, time: Times) -> Times:
        """Return the position of each time (ns) for its group. Times outside the axis go to its nearer border."""
        # In place: of millions of times each copy takes as long as the sum.
        positions: Times = group.astype(np.int64)
        positions *= self.width
        positions += np.clip(time, self.low, self.high)
        positions -= self.low
        return positions

    def group(self, positions: Times) -> Indices:
        """Return the groups of positions."""
        found: Indices = positions // self.width
        return found

    def time(self, positions: Times) -> Times:
        """Return the times of positions (ns)."""
        found: Times = positions % self.width + self.low
        return found

    def union(self, group: Indices, start: Times, end: Times) -> Spans:
        """Return the time that intervals of each group cover, cut at the borders. Those of NO_GROUP are left out."""
        own = group != NO_GROUP
        if not own.all():
            group, start, end = group[own], start[own], end[own]
        return union(self.at(group, start), self.at(group, end))

    def spread(self, spans: Spans) -> Spans:
        """Return spans (ns) repeated for every group."""
        group = np.repeat(np.arange(self.groups), len(spans.start))
        return Spans(self.at(group, np.tile(spans.start, self.groups)), self.at(group, np.tile(spans.end, self.groups)))

    def apart(self, spans: Spans) -> list[Spans]:
        """Return the spans (ns) of each group. Those on the axis come in order, none over a border."""
        borders = np.searchsorted(spans.start, np.arange(self.groups + 1) * self.width).tolist()
        start, end = self.time(spans.start), self.low + spans.end - self.group(spans.start) * self.width
        return [Spans(start[a:b], end[a:b]) for a, b in pairwise(borders)]

    def sums(self, spans: Spans) -> Times:
        """Return the time (ns) that spans on the axis cover of each group."""
        total = np.zeros(self.groups, dtype=np.int64)
        np.add.at(total, self.group(spans.start), spans.end - spans.start)
        return total


def axis_over(window: Spans, groups: int) -> Axis:
    """Return the axis that holds a window for each of some groups. Raises UsageError where the time is too long."""
    low, high = (int(window.start[0]), int(window.end[-1])) if len(window.start) else (0, 0)
    return Axis(low, high, groups)

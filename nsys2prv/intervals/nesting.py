"""Nesting of intervals: depth, parents, crossings, and the innermost interval at an instant. See spans for the form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nsys2prv.intervals.spans import Indices, Mask, Times

# In place of the index of an interval, where none is around another one or an instant.
NO_INTERVAL = -1


class Nesting(NamedTuple):
    """Depth of each interval (0 outermost), index of its parent (NO_INTERVAL: none), and whether it crosses another."""

    depth: Indices
    parent: Indices
    crosses: Mask


def nesting(group: Indices, start: Times, end: Times) -> Nesting:
    """Nest the intervals of each group as a stack of begins and ends would. No interval is empty.

    Ends come before begins at equal times, longer ones open first. An interval crosses when the end that pops it is
    another's: pairs that overlap without one holding the other.
    """
    count = len(start)
    # Begins and ends as one sequence a group.
    order = _stack_order(start, end, np.concatenate([start, end]), np.tile(group, 2))
    who, begins = order % count if count else order, order < count
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


def _stack_order(start: Times, end: Times, *moments: Indices) -> Indices:
    """Return the order in which a stack takes the begins of intervals (from 0 on) and their ends (from the count on).

    `moments`: sort keys of all begins, then all ends, the chief one last. At one moment ends come before begins.
    """
    index, length = np.arange(len(start)), end - start
    begins = np.repeat([True, False], len(start))
    # Among equal ends the one that began last closes first; among equal begins the longer opens first.
    return np.lexsort((np.concatenate([index, -index]), np.concatenate([-length, length]), begins, *moments))


def _parents(who: Indices, begins: Mask, level: Indices, count: int) -> Indices:
    """Return for begins in order the last begin one level up."""
    parent = np.full(count, NO_INTERVAL, dtype=np.int64)
    order, depth = who[begins], level[begins]
    position = np.arange(len(order))
    for d in range(1, int(depth.max(initial=0)) + 1):
        outer = np.flatnonzero(depth == d - 1)
        here = position[depth == d]
        parent[order[here]] = order[outer[np.searchsorted(outer, here) - 1]]
    return parent


def innermost(group: Indices, start: Times, end: Times, parent: Indices, at_group: Indices, at: Times) -> Indices:
    """Return the index of the innermost interval of each instant's group that holds it, NO_INTERVAL where none does.

    The intervals nest (none is empty, none crosses); `parent` comes from `nesting`. Groups count from 0.
    """
    count = len(start)
    if not count:
        return np.full(len(at), NO_INTERVAL, dtype=np.int64)
    # By their order instead of their values: a product of times and groups may be too large for 64 bits.
    times, changed = np.unique(np.concatenate([start, end]), return_inverse=True)
    width = len(times) + 1
    moment = np.tile(group, 2) * width + changed + 1
    # What is open after the last change at a moment is open until the next.
    order = _stack_order(start, end, moment)
    open_after = np.concatenate([np.arange(count), parent])[order]
    asked = at_group * width + np.searchsorted(times, at, side="right")
    last_change = np.searchsorted(moment[order], asked, side="right") - 1
    found: Indices = np.where(last_change >= 0, open_after[last_change], NO_INTERVAL)
    return found

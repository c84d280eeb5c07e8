"""Communicators of NCCL streams without payload: the streams whose k-th kernels ran at one time and ended together.

A collective ends on none of its ranks before it has begun on all of them, and ends on all of them nearly at once.
Kernels of other communicators that run at the same time, such as those of two groups of ranks in step, end apart. A
receive ends with its send if it came first; a send may be done before its receive begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsys2prv.intervals.spans import Times
from nsys2prv.model.frames import RECEIVE, SEND

# Streams share a communicator if at least this share of their k-th kernels ran at one time.
LEAST_SHARE_AT_ONCE = 0.98
# Highest median distance of the ends of their k-th kernels (ns), in addition to the error of two clocks. In captures of
# two to four H100 it is 0.1 to 22 us within a communicator, and 95 us or more between communicators in step.
MOST_ENDS_APART_NS = 50_000
# The same where the distance is steady, since clocks of reports of one host may be off: by 70 us on an H200, with a
# median deviation of 1 to 6 us within a communicator, and of 36 us or more between two. It takes FEWEST_KERNELS to see.
MOST_STEADY_ENDS_APART_NS, MOST_STEADY_DEVIATION_NS, FEWEST_KERNELS = 150_000, 10_000, 4
# In order of the distance of their ends to those of the first stream: a stream that is so many times farther than the
# one before it, and farther than NEAR_ENDS_APART_NS, is of another communicator.
FARTHER_RATIO, NEAR_ENDS_APART_NS = 8, 5_000
# Lowest share of the kernels of the longest stream that were recorded on all of them.
LEAST_COMMON_SHARE = 0.5
# Lowest share of kernels with a root that ran at one time, where times alone show their communicator.
LEAST_ROOTED_SHARE_AT_ONCE = 0.5
# Whether kernels have a root: a Broadcast sends from it, a Reduce to it.
NO_ROOT, FROM_ROOT, TO_ROOT = range(3)


class Stream(NamedTuple):
    """The kernels of one stream, in order of time (ns).

    `clock`: number of its task's clock; `device`: its task and device; `kind`: of PART; `root`: NO_ROOT and the like.
    """

    number: int
    clock: int
    device: tuple[int, int]
    kind: int
    root: int
    begin: Times
    end: Times


class Member(NamedTuple):
    """A stream of a communicator. Its kernel k + `shift` belongs to kernel k of the communicator's first stream."""

    stream: Stream
    shift: int = 0


class _Distance(NamedTuple):
    """Distance of the ends of the kernels of two streams: the median, and the median deviation from it (ns)."""

    median: float
    deviation: float


def collectives(streams: Sequence[Stream], clock_error: int) -> Iterator[list[Member]]:
    """Yield the streams of each communicator. If their ends form no groups, all streams may be one communicator."""
    # Here kernels with a root follow the same rule as others.
    alike = [one._replace(root=NO_ROOT) for one in streams]
    found = list(_communicators(alike, clock_error))
    every = [_aligned(alike[0], one) for one in alike]
    if not found and _is_communicator(every):
        found = [every]
    yield from found


def rooted(streams: Sequence[Stream], clock_error: int) -> Iterator[list[Member]]:
    """Yield the streams of each communicator of kernels with a root, which need not all run at one time."""
    yield from _communicators(_roots_first(streams), clock_error)


def _communicators(streams: Sequence[Stream], clock_error: int) -> Iterator[list[Member]]:
    """Yield the streams of each communicator: the first stream with others, then the next one, and so on."""
    left = list(streams)
    while left:
        members = _communicator_of_first(left, clock_error)
        if _is_communicator(members):
            yield members
        chosen = {one.stream.number for one in members}
        left = [one for one in left if one.number not in chosen]


def _roots_first(streams: Sequence[Stream]) -> list[Stream]:
    """Return streams in an order in which the root comes before the other ranks of its communicator, if there is one.

    The root of a Broadcast ends before the others, that of a Reduce after them.
    """
    sign = {NO_ROOT: 0, FROM_ROOT: 1, TO_ROOT: -1}
    return sorted(streams, key=lambda one: sign[one.root] * float(np.median(one.end)))


def _communicator_of_first(streams: Sequence[Stream], clock_error: int) -> list[Member]:
    """Return the first stream with those of other devices that run at one time and end with it, the nearest first."""
    first, *others = (_aligned(streams[0], one) for one in streams)
    of_one = [one for one in others if _of_one(first, one)]
    members, before = [first], 0.0
    for apart, one in sorted(((_apart(first, one), one) for one in of_one), key=lambda pair: pair[0]):
        farther = len(members) > 1 and apart.median > max(NEAR_ENDS_APART_NS, FARTHER_RATIO * before)
        if farther or not _near(apart, first.stream, one.stream, clock_error):
            break
        if one.stream.device not in {known.stream.device for known in members}:
            members.append(one)
            before = apart.median
    return members


def messages(streams: Sequence[Stream], clock_error: int, peers: Collection[tuple[int, ...]]) -> Iterator[list[Member]]:
    """Yield a stream of sends with the stream of receives that end with them, where the receives came first.

    `peers`: pairs of a stream of sends and one of receives with messages that are known by their ends. A stream of one
    such pair has no other peer, and streams of several pairs are left out.
    """
    left = {one.number: one for one in streams if one.kind == RECEIVE}
    counts = Counter(number for pair in peers for number in pair)
    sole = {pair for pair in peers if all(counts[number] == 1 for number in pair)}
    known = set(counts)
    for send in (one for one in streams if one.kind == SEND):
        near = {}
        for one in left.values():
            pair = send.number, one.number
            alike = len(one.end) == len(send.end) and one.device != send.device
            if alike and (pair in sole or known.isdisjoint(pair)):
                apart = _messages_apart(send, one)
                if _near(apart, send, one, clock_error):
                    near[one.number] = apart
        if near:
            yield [Member(send), Member(left.pop(min(near, key=near.__getitem__)))]


def _near(apart: _Distance, first: Stream, other: Stream, clock_error: int) -> bool:
    """Return True if the ends of two streams are as near as those of one communicator."""
    limit = MOST_STEADY_ENDS_APART_NS if apart.deviation <= MOST_STEADY_DEVIATION_NS else MOST_ENDS_APART_NS
    return apart.median <= limit + (clock_error if first.clock != other.clock else 0)


def _aligned(first: Stream, other: Stream) -> Member:
    """Return the other stream with its shift: 0 if it has as many kernels, and they may be of one communicator."""
    whole = Member(other)
    if len(first.end) == len(other.end) and _of_one(Member(first), whole):
        return whole
    return Member(other, _shift(first, other))


def _shift(first: Stream, other: Stream) -> int:
    """Return how many kernels the other stream has before the first kernel of the first one; below 0: it lacks them.

    It follows from the stream that was recorded later: the first kernel of the other stream that ends after the middle
    of its own first kernel belongs to this kernel.
    """
    before = np.searchsorted(other.end, (first.begin[0] + first.end[0]) // 2)
    after = np.searchsorted(first.end, (other.begin[0] + other.end[0]) // 2)
    return int(before) - int(after)


def _common(members: Sequence[Member]) -> tuple[list[Times], list[Times]]:
    """Return begins and ends, by stream, of the kernels that all streams have."""
    low = max(-one.shift for one in members)
    high = max(min(len(one.stream.end) - one.shift for one in members), low)
    cuts = [(one.stream, slice(low + one.shift, high + one.shift)) for one in members]
    return [stream.begin[cut] for stream, cut in cuts], [stream.end[cut] for stream, cut in cuts]


def _at_once(members: Sequence[Member]) -> bool:
    """Return True if nearly all kernels of one operation ran at one time, and most of the kernels are of operations."""
    begin, end = _common(members)
    if len(begin[0]) < LEAST_COMMON_SHARE * max(len(one.stream.end) for one in members):
        return False
    return bool(_together(begin, end).mean() >= LEAST_SHARE_AT_ONCE)


def _together(begin: Sequence[Times], end: Sequence[Times]) -> npt.NDArray[np.bool_]:
    """Return which operations ran on all streams at one time."""
    return reduce(np.maximum, begin) < reduce(np.minimum, end)


def _of_one(first: Member, other: Member) -> bool:
    """Return True if two streams may be of one communicator; if its kernels have a root, the first one may be it.

    With a root, half of the kernels must have run at one time, and the others must not contradict it: no rank ends a
    Broadcast before the root begins, and the root of a Reduce does not end before the others begin.
    """
    if first.stream.root == NO_ROOT:
        return _at_once([first, other])
    begin, end = _common([first, other])
    if len(begin[0]) < max(FEWEST_KERNELS, LEAST_COMMON_SHARE * max(len(first.stream.end), len(other.stream.end))):
        return False
    to_root = first.stream.root == TO_ROOT
    in_turn = end[0] > begin[1] if to_root else begin[0] < end[1]
    return bool(in_turn.mean() >= LEAST_SHARE_AT_ONCE and _together(begin, end).mean() >= LEAST_ROOTED_SHARE_AT_ONCE)


def _is_communicator(members: Sequence[Member]) -> bool:
    """Return True if streams of several devices are of one communicator. Those with a root were compared with it."""
    several = len({one.stream.device for one in members}) == len(members) > 1
    return several and (members[0].stream.root != NO_ROOT or _at_once(members))


def _apart(first: Member, other: Member) -> _Distance:
    """Return how far the ends of two streams are apart; kernels with a root count if they ran at one time."""
    begin, end = _common([first, other])
    later = end[1] - end[0]
    if first.stream.root != NO_ROOT:
        later = later[_together(begin, end)]
    deviation = np.median(np.abs(later - np.median(later))) if len(later) >= FEWEST_KERNELS else np.inf
    return _Distance(float(np.median(np.abs(later))), float(deviation))


def _messages_apart(send: Stream, receive: Stream) -> _Distance:
    """Return how far apart messages whose receive came first end; inf if the streams are not of one channel.

    No receive ends before its send begins.
    """
    came_first = receive.begin < send.begin
    if not came_first.any() or (receive.end >= send.begin).mean() < LEAST_SHARE_AT_ONCE:
        return _Distance(np.inf, np.inf)
    sides = (one._replace(begin=one.begin[came_first], end=one.end[came_first]) for one in (send, receive))
    return _apart(*(Member(one) for one in sides))

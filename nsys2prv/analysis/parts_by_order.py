"""Parts of NCCL kernels without payload: the k-th kernels on the streams of one communicator are one operation.

An export without JSON and binary columns has no payloads. Then nothing says which ranks share a communicator, but times
do: a collective ends on none of its ranks before it has begun on all of them, and ends on all of them nearly at once.
Kernels of other communicators that run at the same time, such as those of two groups of ranks in step, end apart. A
receive ends with its send if it came first; a send may be done before its receive begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import NCCL, PART, Run
from nsys2prv.analysis.messages_by_ends import messages_by_ends
from nsys2prv.intervals.spans import Times
from nsys2prv.model.frames import COLLECTIVE, RECEIVE, SEND

# Lowest share of the k-th kernels of some streams that ran at one time, for the streams to share a communicator.
AT_ONCE = 0.98
# Highest median distance of the ends of the k-th kernels of two such streams (ns), beside the error of two
# clocks. In captures of two to four H100 it is 0.1 to 22 us within a communicator, and 95 us or more between
# communicators in step.
ENDS_APART = 50_000
# The same where the distance is steady, as clocks of reports of one host may be off: 70 us on an H200, with a median
# deviation of 1 to 6 us within a communicator, and of 36 us or more between two. Fewer kernels than FEW tell nothing.
OFF_APART, STEADY, FEW = 150_000, 10_000, 4
# A stream whose ends are so many times farther from the first one's than those of the stream before it, and more than
# NEAR (ns), is of another communicator.
FARTHER, NEAR = 8, 5_000
# Lowest share of the kernels of the longest stream that were recorded on all of them.
COMMON = 0.5
MESSAGE_KINDS = {"Send": SEND, "Recv": RECEIVE}
GROUP = {"stream": pl.Int64(), "group": pl.Int64(), "shift": pl.Int64()}


def parts_by_order(run: Run, parts: pl.DataFrame) -> pl.DataFrame:
    """Return PART of NCCL kernels that have no part in `parts` (PART), where their order and times tell it.

    The run has all of its ranks, and the error of its clocks. Collectives, and exchanges of all with all, are the
    kernels of one name on each stream; ranks may have begun to record one after the other. A stream that serves two
    communicators counts for the ranks that share both.
    """
    known = parts.filter(pl.col("family") == "nccl").select("row", start="began")
    kernels = run.work.filter(pl.col("kind") == NCCL)
    numbered = _numbered(run, kernels.join(known, on=["row", "start"], how="anti", maintain_order="left"))
    single = _single_messages(numbered)
    peers = {tuple(pair) for pair in single.group_by("group").agg("stream")["stream"].to_list()}
    groups = [pl.DataFrame(schema=GROUP)]
    for (_, message), block in numbered.partition_by("name", "message", as_dict=True, maintain_order=True).items():
        streams = [_stream(run, own) for own in block.partition_by("stream", maintain_order=True)]
        found = _messages(streams, run.clock_error, peers) if message else _collectives(streams, run.clock_error)
        groups += [_frame(members) for members in found]
    own = numbered.join(pl.concat(groups), on="stream").with_columns(pl.col("nth") - pl.col("shift"))
    recorded_by_all = pl.len().over("group", "nth") == pl.col("stream").n_unique().over("group")
    rest = single.join(own, on="stream", how="anti", maintain_order="left")
    whole = pl.len().over("group") == 2
    matched = pl.concat([own.filter(recorded_by_all), rest.filter(whole)], how="diagonal_relaxed")
    matched = matched.sort("group", "nth", "task")
    first = parts.select(pl.col("operation").max().fill_null(-1)).item() + 1
    told = matched.with_columns(
        operation=pl.struct("group", "nth").rle_id().cast(pl.Int64) + first,
        family=pl.lit("nccl"),
        communicator=None,
        bytes=None,
        began="start",
        ended="end",
        awaited=True,
        waits=True,
        last=pl.col("start").max().over("group", "nth"),
        waited_for=pl.col("task").sort_by("start", "task").last().over("group", "nth"),
    )
    return told.select(pl.col(c).cast(t) for c, t in PART.items())


def _numbered(run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return kernels in order of stream and time, with kind (of PART), `message`, stream, and `nth` on it.

    Sends, receives and kernels of other names are streams of their own. Lanes of a stream are one stream. `message`:
    True for sends and receives.
    """
    labels = pl.col("row").replace_strict(dict(enumerate(run.row_labels)), default=None, return_dtype=pl.String)
    kind = pl.col("operation").cast(pl.String).replace_strict(MESSAGE_KINDS, default=COLLECTIVE, return_dtype=pl.UInt8)
    named = kernels.with_columns(label=pl.coalesce(labels, pl.col("row").cast(pl.String)), kind=kind)
    stream = pl.struct("name", "kind", "task", "label").rank("dense").cast(pl.Int64)
    ordered = named.with_columns(stream=stream, message=pl.col("kind") != COLLECTIVE).sort("stream", "start")
    return ordered.with_columns(nth=pl.int_range(pl.len()).over("stream"))


def _single_messages(kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels (of `_numbered`) that are messages by their ends, each message as a `group` of its own.

    The send of a message comes before its receive.
    """
    numbered = kernels.filter("message").with_row_index("number")
    sends, receives = (numbered.filter(pl.col("kind") == kind) for kind in (SEND, RECEIVE))
    found = messages_by_ends(sends, receives)
    # Groups of streams have the numbers of streams, which begin at 1.
    sides = found.with_columns(group=-1 - pl.int_range(pl.len())).unpivot(index="group", value_name="number")
    both = numbered.join(sides.drop("variable"), on="number").with_columns(nth=pl.lit(0, pl.Int64))
    return both.sort(pl.col("kind") != SEND)


class _Stream(NamedTuple):
    """The kernels of one stream, in order of time (ns).

    `clock`: number of its task's clock; `device`: its task and device; `kind`: of PART.
    """

    number: int
    clock: int
    device: tuple[int, int]
    kind: int
    begin: Times
    end: Times


class _Member(NamedTuple):
    """A stream of a communicator. Its kernel k + `shift` belongs to kernel k of the communicator's first stream."""

    stream: _Stream
    shift: int = 0


class _Distance(NamedTuple):
    """Distance of the ends of the kernels of two streams: the median, and the median deviation from it (ns)."""

    median: float
    deviation: float


def _stream(run: Run, kernels: pl.DataFrame) -> _Stream:
    number, task, device, kind = kernels.select("stream", "task", "device", "kind").row(0)
    begin, end = (kernels[c].to_numpy() for c in ("start", "end"))
    return _Stream(number, run.clock_of[task], (task, device), kind, begin, end)


def _frame(members: Sequence[_Member]) -> pl.DataFrame:
    """Return GROUP of the streams of a communicator, of which the first one names it."""
    rows = [(one.stream.number, members[0].stream.number, one.shift) for one in members]
    return pl.DataFrame(rows, schema=GROUP, orient="row")


def _collectives(streams: Sequence[_Stream], clock_error: int) -> Iterator[list[_Member]]:
    """Yield the streams of each communicator. Where ends tell no groups, all streams may be one."""
    left, found = list(streams), False
    while left:
        members = _communicator_of_first(left, clock_error)
        if _is_communicator(members):
            found = True
            yield members
        chosen = {one.stream.number for one in members}
        left = [one for one in left if one.number not in chosen]
    every = [_aligned(streams[0], one) for one in streams]
    if not found and _is_communicator(every):
        yield every


def _communicator_of_first(streams: Sequence[_Stream], clock_error: int) -> list[_Member]:
    """Return the first stream with those of other devices that run at one time and end with it, the nearest first."""
    first, *others = (_aligned(streams[0], one) for one in streams)
    at_once = [one for one in others if _at_once([first, one])]
    members, before = [first], 0.0
    for apart, one in sorted(((_apart(first, one), one) for one in at_once), key=lambda pair: pair[0]):
        farther = len(members) > 1 and apart.median > max(NEAR, FARTHER * before)
        if farther or not _near(apart, first.stream, one.stream, clock_error):
            break
        if one.stream.device not in {known.stream.device for known in members}:
            members.append(one)
            before = apart.median
    return members


def _messages(
    streams: Sequence[_Stream], clock_error: int, peers: Collection[tuple[int, ...]]
) -> Iterator[list[_Member]]:
    """Yield a stream of sends with the one of receives that end with these, if they came first.

    `peers`: streams of sends and of receives with messages that their ends tell. Streams with several peers are left
    out, and a stream with one has no other.
    """
    left = {one.number: one for one in streams if one.kind == RECEIVE}
    counts = Counter(number for pair in peers for number in pair)
    sole = {pair for pair in peers if all(counts[number] == 1 for number in pair)}
    known = set(counts)
    for send in (one for one in streams if one.kind == SEND):
        alike = [one for one in left.values() if len(one.end) == len(send.end) and one.device != send.device]
        pairs = {one.number: (send.number, one.number) for one in alike}
        alike = [one for one in alike if (pair := pairs[one.number]) in sole or known.isdisjoint(pair)]
        apart = {one.number: _messages_apart(send, one) for one in alike}
        near = [one.number for one in alike if _near(apart[one.number], send, one, clock_error)]
        if near:
            yield [_Member(send), _Member(left.pop(min(near, key=apart.__getitem__)))]


def _near(apart: _Distance, first: _Stream, other: _Stream, clock_error: int) -> bool:
    """Return True if the ends of two streams are as near as those of one communicator."""
    limit = OFF_APART if apart.deviation <= STEADY else ENDS_APART
    return apart.median <= limit + (clock_error if first.clock != other.clock else 0)


def _aligned(first: _Stream, other: _Stream) -> _Member:
    """Return the other stream with its shift: none if both have as many kernels, which ran at one time."""
    whole = _Member(other)
    if len(first.end) == len(other.end) and _at_once([_Member(first), whole]):
        return whole
    return _Member(other, _shift(first, other))


def _shift(first: _Stream, other: _Stream) -> int:
    """Return how many kernels the other stream has before the first kernel of the first one; below 0: it lacks them.

    The stream that was recorded later tells it. The middle of its first kernel lies between the ends of two kernels of
    the other stream, of which the latter belongs to it.
    """
    before = np.searchsorted(other.end, (first.begin[0] + first.end[0]) // 2)
    after = np.searchsorted(first.end, (other.begin[0] + other.end[0]) // 2)
    return int(before) - int(after)


def _common(members: Sequence[_Member]) -> tuple[list[Times], list[Times]]:
    """Return begins and ends, by stream, of the kernels that all streams have."""
    low = max(-one.shift for one in members)
    high = max(min(len(one.stream.end) - one.shift for one in members), low)
    cuts = [(one.stream, slice(low + one.shift, high + one.shift)) for one in members]
    return [stream.begin[cut] for stream, cut in cuts], [stream.end[cut] for stream, cut in cuts]


def _at_once(members: Sequence[_Member]) -> bool:
    """Return True if nearly all kernels of one operation ran at one time, and most of the kernels are of operations."""
    begin, end = _common(members)
    if len(begin[0]) < COMMON * max(len(one.stream.end) for one in members):
        return False
    at_once = reduce(np.maximum, begin) < reduce(np.minimum, end)
    return bool(at_once.mean() >= AT_ONCE)


def _is_communicator(members: Sequence[_Member]) -> bool:
    return len({one.stream.device for one in members}) == len(members) > 1 and _at_once(members)


def _apart(first: _Member, other: _Member) -> _Distance:
    """Return how far the ends of two streams are apart."""
    _, (own, others) = _common([first, other])
    later = others - own
    deviation = np.median(np.abs(later - np.median(later))) if len(later) >= FEW else np.inf
    return _Distance(float(np.median(np.abs(later))), float(deviation))


def _messages_apart(send: _Stream, receive: _Stream) -> _Distance:
    """Return how far apart messages whose receive came first end; inf if the streams are not of one channel.

    No receive ends before its send begins.
    """
    came_first = receive.begin < send.begin
    if not came_first.any() or (receive.end >= send.begin).mean() < AT_ONCE:
        return _Distance(np.inf, np.inf)
    sides = (one._replace(begin=one.begin[came_first], end=one.end[came_first]) for one in (send, receive))
    return _apart(*(_Member(one) for one in sides))

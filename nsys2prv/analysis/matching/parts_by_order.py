"""Parts of NCCL kernels without payload: the k-th kernels on the streams of one communicator are one operation.

An export without JSON and binary columns has no payloads. Then times alone show which ranks share a communicator (see
communicators_by_order). Messages of a stream with several peers are matched one by one (see messages_by_ends).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import polars as pl

from nsys2prv.analysis.frames import NCCL, PART, Run, stream_of
from nsys2prv.analysis.matching.communicators_by_order import (
    FROM_ROOT,
    NO_ROOT,
    TO_ROOT,
    Member,
    Stream,
    collectives,
    messages,
    rooted,
)
from nsys2prv.analysis.matching.messages_by_ends import messages_by_ends
from nsys2prv.analysis.matching.rooted_by_order import rooted_by_order, without_smaller_groups
from nsys2prv.families.nccl.nccl_calls import KERNEL_WORD
from nsys2prv.model.frames import COLLECTIVE, RECEIVE, SEND
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.matching.arrivals import with_rooted_arrivals

MESSAGE_KINDS = {"Send": SEND, "Recv": RECEIVE}
ROOTS = {"Broadcast": FROM_ROOT, "Reduce": TO_ROOT}
# The streams of communicators. `group`: the number of the communicator's first stream; kernel k + `shift` of a stream
# belongs to kernel k of that one.
GROUP = {"stream": pl.Int64(), "group": pl.Int64(), "shift": pl.Int64()}
_OPERATION = ["group", "nth"]


def parts_by_order(run: Run, parts: pl.DataFrame) -> pl.DataFrame:
    """Return PART of NCCL kernels that have no part in `parts` (PART), where it follows from their order and times.

    `run`: all ranks, and the error of their clocks; they may have begun to record one after the other. Collectives, and
    exchanges of all with all, are the kernels of one name on each stream. A stream that serves two communicators counts
    for the ranks that share both.
    """
    known = parts.filter(pl.col("family") == "nccl").select("row", start="began")
    kernels = run.work.filter(pl.col("kind") == NCCL)
    numbered = _numbered(run, kernels.join(known, on=["row", "start"], how="anti", maintain_order="left"))
    single = _single_messages(numbered)
    has_root = pl.col("root") != NO_ROOT
    together = _grouped(run, numbered.filter(~has_root), single)
    with_root = _rooted(run, numbered.filter(has_root), together.filter(~pl.col("message")))
    rest = single.join(together, on="stream", how="anti", maintain_order="left")
    messages_of_two = rest.filter(pl.len().over("group") == 2)
    matched = pl.concat([together, messages_of_two, with_root], how="diagonal_relaxed").sort(*_OPERATION, "task")
    first = parts.select(pl.col("operation").max().fill_null(-1)).item() + 1
    return _parts(matched, first, run.clocks.tolerance)


def _grouped(run: Run, numbered: pl.DataFrame, single: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels (of `_numbered`) of operations that were recorded on all streams of a group.

    `group`, `nth`: equal for the kernels of one operation. `single`: see `_single_messages`.
    """
    peers = {tuple(pair) for pair in single.group_by("group").agg("stream")["stream"].to_list()}
    groups = [
        messages(streams, run.clocks.tolerance, peers) if message else collectives(streams, run.clocks.tolerance)
        for message, streams in _streams_by_name(numbered)
    ]
    return _operations(numbered, chain.from_iterable(groups))


def _rooted(run: Run, numbered: pl.DataFrame, matched: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels with a root that have an operation, as `_grouped`. `matched`: kernels of other names.

    Rules find them, the surest first: their order among the matched kernels of their streams, unless times show smaller
    groups; that they ran at one time; that half of them did, and no time contradicts a root. Where streams have no
    matched kernels of other names, those that are left follow from their order among the ones found so far.
    """
    ran_at_once = (collectives(streams, run.clocks.tolerance) for _, streams in _streams_by_name(numbered))
    by_times = _operations(numbered, chain.from_iterable(ran_at_once))
    in_order = without_smaller_groups(rooted_by_order(numbered, matched, run.clocks.tolerance), by_times)
    ordered = pl.col("stream").is_in(in_order["stream"].unique().implode())
    by_times = by_times.filter(~ordered.any().over("group"))
    both = pl.concat([by_times, in_order], how="diagonal_relaxed")
    rest = numbered.join(both, on="stream", how="anti", maintain_order="left")
    around_roots = (rooted(streams, run.clocks.tolerance) for _, streams in _streams_by_name(rest))
    found = pl.concat([both, _operations(rest, chain.from_iterable(around_roots))], how="diagonal_relaxed")
    left = numbered.join(found, on="stream", how="anti", maintain_order="left")
    alone = left.join(matched, on="place", how="anti", maintain_order="left")
    return pl.concat([found, rooted_by_order(alone, found, run.clocks.tolerance)], how="diagonal_relaxed")


def _streams_by_name(numbered: pl.DataFrame) -> Iterator[tuple[bool, list[Stream]]]:
    """Yield the streams of each name, and True for messages."""
    for (_, message), block in numbered.partition_by("name", "message", as_dict=True, maintain_order=True).items():
        yield bool(message), [_stream(own) for own in block.partition_by("stream", maintain_order=True)]


def _operations(numbered: pl.DataFrame, groups: Iterable[Sequence[Member]]) -> pl.DataFrame:
    """Return the kernels of operations that all streams of a group have, with `group` and their common `nth`."""
    frames = [pl.DataFrame(schema=GROUP), *(_frame(members) for members in groups)]
    own = numbered.join(pl.concat(frames), on="stream").with_columns(pl.col("nth") - pl.col("shift"))
    return own.filter(pl.len().over(_OPERATION) == pl.col("stream").n_unique().over("group"))


def _parts(matched: pl.DataFrame, first: int, clock_error: int) -> pl.DataFrame:
    """Return PART of matched kernels, which come in order of _OPERATION. `first`: the number of the first operation."""
    parts = matched.with_columns(
        operation=pl.struct(_OPERATION).rle_id().cast(pl.Int64) + first,
        family=pl.lit("nccl"),
        communicator=None,
        bytes=None,
        began="start",
        ended="end",
        awaited=True,
        waits=True,
        last=pl.col("start").max().over(_OPERATION),
        waited_for=pl.col("task").sort_by("start", "task").last().over(_OPERATION),
    )
    has_root = pl.col("root") != NO_ROOT
    with_root = with_rooted_arrivals(parts.filter(has_root), ["operation"], clock_error)
    both = pl.concat([parts.filter(~has_root), with_root]).sort("operation", "task")
    return to_schema(both, PART)


def _numbered(run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return kernels in order of stream and time, with what tells streams apart, and `nth`: their number on the stream.

    `stream`: the kernels of one name and kind (of PART) on a stream of the GPU, which is their `place` and may have
    several lanes; `message`: True for sends and receives; `root`: see communicators_by_order; `clock`: its number.
    """
    kind = pl.col("operation").cast(pl.String).replace_strict(MESSAGE_KINDS, default=COLLECTIVE, return_dtype=pl.UInt8)
    names = kernels.select(name=pl.col("name").cast(pl.String).unique())
    word = pl.col("name").str.extract(KERNEL_WORD)
    roots = names.select("name", root=word.replace_strict(ROOTS, default=NO_ROOT, return_dtype=pl.Int64))
    named = kernels.with_columns(
        place=stream_of(run),
        kind=kind,
        root=pl.col("name")
        .cast(pl.String)
        .replace_strict(roots["name"], roots["root"], default=NO_ROOT, return_dtype=pl.Int64),
        clock=pl.col("task").replace_strict(dict(enumerate(run.clocks.of_task)), default=0, return_dtype=pl.Int64),
    )
    stream = pl.struct("name", "kind", "place").rank("dense").cast(pl.Int64)
    placed = named.with_columns(stream=stream, message=pl.col("kind") != COLLECTIVE)
    ordered = placed.sort("stream", "start")
    return ordered.with_columns(nth=pl.int_range(pl.len()).over("stream"))


def _single_messages(kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels (of `_numbered`) that messages_by_ends pairs, each message as a `group` of its own.

    The send of a message comes before its receive.
    """
    numbered = kernels.filter("message").with_row_index("number")
    sends, receives = (numbered.filter(pl.col("kind") == kind) for kind in (SEND, RECEIVE))
    found = messages_by_ends(sends, receives)
    # Groups of streams have the numbers of streams, which begin at 1.
    sides = found.with_columns(group=-1 - pl.int_range(pl.len())).unpivot(index="group", value_name="number")
    both = numbered.join(sides.drop("variable"), on="number").with_columns(nth=pl.lit(0, pl.Int64))
    return both.sort(pl.col("kind") != SEND)


def _stream(kernels: pl.DataFrame) -> Stream:
    number, clock, task, device, kind, root = kernels.select("stream", "clock", "task", "device", "kind", "root").row(0)
    begin, end = (kernels[c].to_numpy() for c in ("start", "end"))
    return Stream(number, clock, (task, device), kind, root, begin, end)


def _frame(members: Sequence[Member]) -> pl.DataFrame:
    """Return GROUP of the streams of a communicator: the number of the first one is their `group`."""
    rows = [(one.stream.number, members[0].stream.number, one.shift) for one in members]
    return pl.DataFrame(rows, schema=GROUP, orient="row")

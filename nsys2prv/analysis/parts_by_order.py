"""Parts of NCCL kernels without payload: the k-th kernels on the streams of one communicator are one operation.

An export without JSON and binary columns has no payloads. Then nothing says which ranks share a communicator, but times
do (see communicators_by_order). Where a stream serves several peers, messages are told one by one (messages_by_ends).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsys2prv.analysis.communicators_by_order import Member, Stream, collectives, messages
from nsys2prv.analysis.frames import NCCL, PART, Run
from nsys2prv.analysis.messages_by_ends import messages_by_ends
from nsys2prv.model.frames import COLLECTIVE, RECEIVE, SEND

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
        found = messages(streams, run.clock_error, peers) if message else collectives(streams, run.clock_error)
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


def _stream(run: Run, kernels: pl.DataFrame) -> Stream:
    number, task, device, kind = kernels.select("stream", "task", "device", "kind").row(0)
    begin, end = (kernels[c].to_numpy() for c in ("start", "end"))
    return Stream(number, run.clock_of[task], (task, device), kind, begin, end)


def _frame(members: Sequence[Member]) -> pl.DataFrame:
    """Return GROUP of the streams of a communicator, of which the first one names it."""
    rows = [(one.stream.number, members[0].stream.number, one.shift) for one in members]
    return pl.DataFrame(rows, schema=GROUP, orient="row")

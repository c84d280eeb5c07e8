"""Messages of MPI's point-to-point calls, with the times at which they are sent and have arrived."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.mpi.mpi_requests import STARTS, completed, pending
from nsys2prv.families.source import Source
from nsys2prv.intervals.shortest import end_of
from nsys2prv.model.frames import OPERATION_END, RECEIVE, SEND, OperationEnds
from nsys2prv.model.function_numbers import MPI_NUMBERS
from nsys2prv.model.global_ids import process_of
from nsys2prv.model.line_tags import MPI_TAG
from nsys2prv.model.losses import Loss
from nsys2prv.model.schemas import to_schema

# Rows with equal values in these columns belong to one call.
CALL_COLUMNS = ("globalTid", "start", "textId")
SENDS = r"(?i)^MPI_I?[bsr]?send(_init)?$"
RECEIVES = r"(?i)^MPI_I?m?recv(_init)?$"
BOTH = r"(?i)^MPI_I?sendrecv"
# Calls that may wait for a message.
TAKES_MESSAGE = r"(?i)^MPI_(M?recv|Sendrecv(_replace)?|Wait(all|any|some)?)$"
PERSISTENT = r"(?i)_init$"
# Largest tag: MPI's tags are C's int.
HIGHEST_TAG = 2**31 - 1


def message_ends(source: Source, rows: pl.DataFrame, waits: pl.DataFrame, uses: pl.DataFrame) -> OperationEnds:
    """Return ends of messages.

    `rows`: point-to-point rows on communicators, with text; `waits`: starts, waits and tests; `uses`: see
    mpi_requests.request_uses. A send leaves when its call, or the start of its persistent request, begins; a receive
    has arrived when its call, or the wait for its request, ends.
    """
    persistent = pl.col("text").str.contains(PERSISTENT)
    directed = pl.concat([_directed(rows.filter(~persistent)), _started(source, rows.filter(persistent), waits)])
    tagged = _addressed(source, directed.filter(pl.col("kind").is_not_null()))
    received = tagged.with_columns(is_pending=pending() & (pl.col("kind") == RECEIVE))
    done = completed(received, waits, uses)
    source.tally.count(Loss.NEVER_DONE, done.filter(pl.col("is_pending") & pl.col("completed").is_null()).height)
    ends = done.with_columns(
        source.members.ids(done.with_columns(highest="remoteRank")),
        **_carried(),
        tag=pl.col("tag").clip(upper_bound=HIGHEST_TAG) + MPI_TAG,
        peer="remoteRank",
        operation=pl.col("text").replace_strict(MPI_NUMBERS, default=None, return_dtype=pl.Int64),
    )
    # Messages between two ranks with one tag keep their order: the k-th sent is the k-th received.
    ordered = ends.sort("start", "globalTid", maintain_order=True).with_columns(
        sequence=pl.int_range(1, pl.len() + 1).over("member", "kind", "peer", "tag")
    )
    placed = ordered.with_columns(source.places.threads(ordered["thread"]).alias("place"))
    return OperationEnds(to_schema(placed, OPERATION_END))


def _addressed(source: Source, directed: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with a rank and a tag of their own, where a tag that is missing is 0. Count the others."""
    named = directed.filter((pl.col("remoteRank") >= 0) & pl.col("communicator").is_not_null())
    source.tally.count(Loss.NOBODY, directed.height - named.height)
    tagged = named.with_columns(pl.col("tag").fill_null(0)).filter(pl.col("tag") >= 0)
    source.tally.count(Loss.ANY_TAG, named.height - tagged.height)
    return tagged


def _carried() -> dict[str, pl.Expr]:
    """Return the `time` of ends of messages (see message_ends), and begin, end and thread of the call that has it."""
    later, received = pl.when(pl.col("completed").is_not_null()), pl.col("kind") == RECEIVE
    # A receive that is never completed has no call that waits for it.
    at_once = pl.when(~pl.col("is_pending"))
    began = later.then("waited").otherwise(at_once.then("start"))
    ended = later.then("completed").otherwise(at_once.then("returned"))
    return {
        "time": pl.when(received).then(later.then("completed").otherwise("end")).otherwise("start"),
        "began": began,
        "ended": end_of(ended, began),
        "thread": pl.when(received).then(pl.coalesce("waiter", "globalTid")).otherwise("globalTid"),
    }


def _directed(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `kind` to rows. If a call both sends and receives, the row of its send has no length."""
    text = pl.col("text")
    position = pl.int_range(pl.len()).over(*CALL_COLUMNS)
    alone = pl.len().over(*CALL_COLUMNS) == 1
    sends = pl.when(alone).then(pl.col("end") == pl.col("start")).otherwise(position == 0)
    kind = (
        pl.when(text.str.contains(SENDS))
        .then(SEND)
        .when(text.str.contains(RECEIVES))
        .then(RECEIVE)
        .when(text.str.contains(BOTH))
        .then(pl.when(sends).then(SEND).otherwise(RECEIVE))
    )
    whole = pl.col("end").max().over(*CALL_COLUMNS)
    return rows.sort("start", "end", maintain_order=True).with_columns(kind=kind, returned=whole)


def _started(source: Source, inits: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each start of a persistent request: its MPI_Send_init or MPI_Recv_init, at the start's time."""
    process = process_of(pl.col("globalTid")).alias("process")
    starts = waits.filter(pl.col("text").str.contains(STARTS)).select(
        "start", "end", "requestHandle", process, returned="end"
    )
    made = _directed(inits).with_columns(process, made="end").drop("start", "end", "returned").sort("made")
    # A handle is used again when its request is freed.
    found = starts.sort("start", maintain_order=True).join_asof(
        made, left_on="start", right_on="made", by=["process", "requestHandle"], check_sortedness=False
    )
    known = found.drop_nulls("made")
    source.tally.count(Loss.NO_INIT, found.height - known.height)
    return known.select(*inits.columns, "kind", "returned")

"""MPI operations as anchors between clocks: synchronous collectives, MPI_Init, and messages."""

from __future__ import annotations

import polars as pl

from nsys2prv.model.frames import SEND, Anchors

# Collectives that no rank leaves before all have entered.
SYNCHRONOUS_CALLS = r"(?i)^MPI_(Barrier|Allreduce|Allgatherv?|Alltoall[vw]?|Reduce_scatter(_block)?)$"
INIT = r"(?i)^MPI_Init(_thread)?$"


def init_anchors(others: pl.DataFrame) -> Anchors:
    """Return the first MPI_Init among the rows of MPI_OTHER. As a rule all ranks leave it together."""
    return Anchors(
        others.filter(pl.col("text").str.contains(INIT)).sort("start").head(1).select(
            kind=pl.lit("init"), communicator=pl.lit("mpi init"), sequence=pl.lit(0), ranks=pl.lit(None, pl.Int64),
            start="start", end="end",
        )
    )  # fmt: skip


def collective_anchors(rows: pl.DataFrame) -> Anchors:
    """Return the synchronous collectives, counted from 0 on each communicator (see on_communicators)."""
    synchronous = rows.filter(pl.col("text").str.contains(SYNCHRONOUS_CALLS)).sort("start")
    return Anchors(
        synchronous.select(
            kind=pl.lit("collective"),
            communicator=pl.format("mpi {}", "communicator"),
            sequence=pl.int_range(pl.len()).over("process", "communicator"),
            ranks="ranks",
            start="start",
            end="end",
        )
    )


def message_anchors(ends: pl.DataFrame, members: pl.DataFrame) -> Anchors:
    """Return ends of messages (columns of OPERATION_END) as instants. `members`: the table of Source.members.

    Both ends of one message have the same communicator, ranks, tag and number.
    """
    named = ends.join(members.select("communicator", "rank", member="id"), on="member")
    sent = pl.col("kind") == SEND
    source, target = (pl.when(sent).then(a).otherwise(b) for a, b in (("rank", "peer"), ("peer", "rank")))
    return Anchors(
        named.select(
            kind=pl.when(sent).then(pl.lit("send")).otherwise(pl.lit("recv")),
            communicator=pl.format("mpi {} {}>{} tag {}", "communicator", source, target, "tag"),
            sequence="sequence",
            ranks=pl.lit(2, pl.Int64),
            start="time",
            end="time",
        )
    )

"""Collectives of MPI: the call with which a rank enters each, and the call that completes a nonblocking one."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.mpi.mpi_communicators import on_windows
from nsys2prv.families.mpi.mpi_requests import completed, pending
from nsys2prv.families.source import Source
from nsys2prv.intervals.shortest import end_of
from nsys2prv.model import event_types as types
from nsys2prv.model.frames import COLLECTIVE, COMPLETION, OPERATION_END, OperationEnds
from nsys2prv.model.function_numbers import MPI_NUMBERS
from nsys2prv.model.schemas import to_schema


def numbered_collectives(source: Source, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows of MPI_COLLECTIVE with `named` (label of the communicator), `sequence` and `is_root`."""
    own = pl.when(pl.col("class") == "collective").then("communicator")
    rows = rows.with_columns(communicator=own).sort("start", "globalTid", maintain_order=True)
    names = source.labels.ids(types.MPI_COMMUNICATOR.key, rows["communicator"])
    return rows.with_columns(
        named=names,
        is_root=(pl.col("rootRank") == pl.col("rank")).cast(pl.Int64),
        sequence=pl.when(own.is_not_null()).then(pl.int_range(1, pl.len() + 1).over("process", "communicator")),
    )


def numbered_fences(fences: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return the fences of windows of all ranks, as collectives without a root. `known`: see mpi_communicators."""
    ordered = on_windows(fences, known).sort("start", maintain_order=True)
    number = pl.int_range(1, pl.len() + 1).over("process")
    return ordered.with_columns(sequence=number, rootRank=pl.lit(None, pl.Int64))


def collective_ends(source: Source, rows: pl.DataFrame) -> OperationEnds:
    """Return the ends of numbered collectives and fences: each rank's call that enters one."""
    began = pl.col("start")
    return _ends(source, rows, COLLECTIVE, {"began": began, "ended": end_of(), "thread": pl.col("globalTid")})


def completion_ends(source: Source, rows: pl.DataFrame, waits: pl.DataFrame, uses: pl.DataFrame) -> OperationEnds:
    """Return the ends of numbered nonblocking collectives: the wait or test that completes each, where it was recorded.

    `waits`: starts, waits and tests; `uses`: see mpi_requests.request_uses.
    """
    done = completed(rows.filter(pending()).with_columns(is_pending=True), waits, uses).drop_nulls("completed")
    waited = {"began": pl.col("waited"), "ended": end_of("completed", "waited"), "thread": pl.col("waiter")}
    return _ends(source, done, COMPLETION, waited)


def _ends(source: Source, rows: pl.DataFrame, kind: int, activity: dict[str, pl.Expr]) -> OperationEnds:
    """Return ends of one kind. `activity`: begin, end and thread of the call that carries each."""
    known = rows.drop_nulls("communicator")
    ends = known.with_columns(
        source.members.ids(known.with_columns(highest="rootRank")),
        kind=pl.lit(kind),
        peer=pl.col("rootRank"),
        tag=pl.lit(0),
        operation=pl.col("text").replace_strict(MPI_NUMBERS, default=None, return_dtype=pl.Int64),
        # Ranks of one collective may give different sizes.
        size=pl.lit(None, pl.Int64),
        time="start",
        **activity,
    )
    placed = ends.with_columns(source.places.threads(ends["thread"]).alias("place"))
    return OperationEnds(to_schema(placed, OPERATION_END))

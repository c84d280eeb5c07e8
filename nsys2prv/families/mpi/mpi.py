"""MPI calls of host threads, classified by function name, and their collectives and messages between ranks.

Rows are not calls: MPI_Waitall has a row for each request, with equal times; MPI_Sendrecv has a row for its send and
one for its receive.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.mpi.mpi_anchors import collective_anchors, init_anchors, message_anchors
from nsys2prv.families.mpi.mpi_collectives import (
    collective_ends,
    completion_ends,
    numbered_collectives,
    numbered_fences,
)
from nsys2prv.families.mpi.mpi_communicators import communicators, on_communicators
from nsys2prv.families.mpi.mpi_messages import CALL_COLUMNS, message_ends
from nsys2prv.families.mpi.mpi_requests import STARTS, request_uses
from nsys2prv.families.source import Source
from nsys2prv.model import event_types as types
from nsys2prv.model.frames import Intervals
from nsys2prv.model.function_numbers import MPI_SAME
from nsys2prv.report import schema
from nsys2prv.report.declaration import Table

TABLES = (schema.MPI_P2P, schema.MPI_WAIT, schema.MPI_COLLECTIVE, schema.MPI_OTHER)
COLUMNS = ("start", "end", "globalTid", "textId")

# The report's tables do not classify calls: MPI-IO and RMA calls lie among the collectives and the others.
COLLECTIVES = r"^MPI_I?(barrier|bcast|reduce|allreduce|gather|allgather|scatter|alltoall|scan|exscan|neighbor)"
# One-sided calls that no rank leaves before all have entered.
FENCES = r"(?i)^MPI_Win_fence$"
CALL_CLASSES = {
    "io": r"(?i)^MPI_File_",
    "rma": r"(?i)^MPI_(Win_|R?Put|R?Get$|R?Get_accumulate|R?Accumulate|Fetch_and_op|Compare_and_swap)",
    "collective": f"(?i){COLLECTIVES}",
    "p2p": r"(?i)^MPI_(I?[bsr]?send|I?m?recv|i?sendrecv|wait|test|i?m?probe|start|request_|cancel|p(send|recv|ready))",
}
COLUMN_OF_ATTRIBUTE = {
    types.MPI_SEND_SIZE.key: "size",
    types.MPI_RECV_SIZE.key: "recvSize",
    types.MPI_ROOT.key: "is_root",
    types.MPI_COMMUNICATOR.key: "named",
    types.MPI_SEQUENCE.key: "sequence",
}


def _frames(source: Source, state: None) -> Frames[None]:
    """Yield the calls, then the ends of collectives, of nonblocking ones and of messages, then anchors."""
    rows = {t.name: _with_names(source, t) for t in TABLES}
    known = _communicators(source, rows)
    on_known = on_communicators(rows[schema.MPI_COLLECTIVE.name], known)
    collectives = numbered_collectives(source, on_known)
    calls = pl.concat([collectives, *(rows[t.name] for t in TABLES if t is not schema.MPI_COLLECTIVE)], how="diagonal")
    yield from _call_intervals(source, calls)
    entered = collectives.filter(pl.col("class") == "collective")
    fences = numbered_fences(rows[schema.MPI_OTHER.name].filter(pl.col("text").str.contains(FENCES)), known)
    yield collective_ends(source, pl.concat([entered, fences], how="diagonal"))
    messages, waits = on_communicators(rows[schema.MPI_P2P.name], known), rows[schema.MPI_WAIT.name]
    starts = waits.filter(pl.col("text").str.contains(STARTS))
    uses = request_uses([messages, starts, rows[schema.MPI_COLLECTIVE.name]])
    yield completion_ends(source, entered, waits, uses)
    ends = message_ends(source, messages, waits, uses)
    yield ends
    if source.options.anchors:
        yield init_anchors(rows[schema.MPI_OTHER.name])
        yield collective_anchors(on_known)
        yield message_anchors(ends.data, source.members.table)


def _call_intervals(source: Source, calls: pl.DataFrame) -> Iterator[Intervals]:
    """Yield calls as intervals, by class of function. Of the rows of one call the one with a length counts."""
    once = calls.sort("start", "end", maintain_order=True).unique(CALL_COLUMNS, keep="last", maintain_order=True)
    for (name,), part in once.group_by("class", maintain_order=True):
        key = types.MPI[str(name)].key
        attributes = tuple(COLUMN_OF_ATTRIBUTE) if name == "collective" else ()
        numbered = part.with_columns(
            slot=source.slot(key),
            value=source.labels.ids(key, part["text"]),
            **{a: pl.col(COLUMN_OF_ATTRIBUTE[a]) for a in attributes},
        )
        yield source.thread_intervals(numbered, attributes)


def _communicators(source: Source, rows: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the communicators that the rows of TABLES use: see mpi_communicators."""
    used = [rows[t.name].select("globalTid", "start", "commHandle") for t in (schema.MPI_P2P, schema.MPI_COLLECTIVE)]
    others = rows[schema.MPI_OTHER.name].select("globalTid", "start", commHandle=pl.lit(None, pl.Int64))
    return communicators(source, pl.concat([*used, others]))


def _with_names(source: Source, table: Table) -> pl.DataFrame:
    """Return the rows of a table with `text` (the function) and `class`."""
    rows = source.table(table)
    source.count_missing_texts(rows["textId"])
    named = rows.with_columns(text=source.texts(rows["textId"]).replace(MPI_SAME))
    kind = pl.lit("other")
    for name, pattern in reversed(CALL_CLASSES.items()):
        kind = pl.when(pl.col("text").str.contains(pattern)).then(pl.lit(name)).otherwise(kind)
    return named.with_columns(kind.alias("class"))


FAMILY = Family(
    name="mpi",
    title="MPI calls",
    draws=TABLES,
    reads={
        schema.MPI_P2P: (*COLUMNS, "commHandle", "tag", "remoteRank", "size", "requestHandle"),
        schema.MPI_WAIT: (*COLUMNS, "requestHandle"),
        schema.MPI_COLLECTIVE: (*COLUMNS, "commHandle", "rootRank", "size", "recvSize", "requestHandle"),
        schema.MPI_OTHER: COLUMNS,
        schema.MPI_COMMUNICATORS: tuple(schema.MPI_COMMUNICATORS.columns),
        schema.MPI_RANKS: tuple(schema.MPI_RANKS.columns),
    },
    emits=(*types.MPI.values(), *(types.EVENT_TYPES[k] for k in COLUMN_OF_ATTRIBUTE)),
    frames=_frames,
    public=("mpi_event_trace",),
    calls="mpi",
    anchors=True,
)

"""MPI calls of host threads, classified by function name."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.activities.family import Family, Source
from nsys2prv.paraver.event_types import MPI
from nsys2prv.report import schema
from nsys2prv.timeline.frames import Intervals

TABLES = (schema.MPI_P2P, schema.MPI_WAIT, schema.MPI_COLLECTIVE, schema.MPI_OTHER)
COLUMNS = ("start", "end", "globalTid", "textId")

# The report's tables do not tell: MPI-IO and RMA calls lie among the collectives and the others.
COLLECTIVE = r"^MPI_I?(barrier|bcast|reduce|allreduce|gather|allgather|scatter|alltoall|scan|exscan|neighbor)"
CLASSES = {
    "io": r"(?i)^MPI_File_",
    "rma": r"(?i)^MPI_(Win_|R?Put|R?Get$|R?Get_accumulate|R?Accumulate|Fetch_and_op|Compare_and_swap)",
    "collective": f"(?i){COLLECTIVE}",
    "p2p": r"(?i)^MPI_(I?[bsr]?send|I?m?recv|i?sendrecv|wait|test|i?m?probe|start|request_|cancel|p(send|recv|ready))",
}


def calls(source: Source) -> pl.DataFrame:
    """One row a call: start, end, globalTid, textId.

    Rows are not calls: MPI_Waitall has a row a request with equal times, MPI_Sendrecv a second one of no length.
    """
    rows = pl.concat(source.table(t).select(COLUMNS) for t in TABLES)
    return rows.group_by("globalTid", "start", "textId", maintain_order=True).agg(pl.col("end").max())


def _frames(source: Source) -> Iterator[Intervals]:
    found = calls(source)
    named = found.with_columns(text=source.texts(found["textId"]))
    kind = pl.lit("other")
    for name, pattern in reversed(CLASSES.items()):
        kind = pl.when(pl.col("text").str.contains(pattern)).then(pl.lit(name)).otherwise(kind)
    for (name,), part in named.with_columns(kind=kind).group_by("kind", maintain_order=True):
        key = MPI[str(name)].key
        yield source.thread_intervals(
            part.with_columns(slot=pl.lit(source.slots.number(key)), value=source.labels.ids(key, part["text"]))
        )


FAMILY = Family(
    name="mpi",
    title="MPI calls",
    draws=TABLES,
    reads=dict.fromkeys(TABLES, COLUMNS),
    emits=tuple(MPI.values()),
    frames=_frames,
    public="mpi_event_trace",
)

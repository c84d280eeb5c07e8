"""MPI communicators by names that are the same on all ranks.

A report knows a communicator by its handle, a pointer of that process, which is used again after MPI_Comm_free. What
all ranks agree on is how it came about: its parent, the rank on MPI_COMM_WORLD of its group's root, and which of the
root's communicators it is. Ranks create communicators of one parent in the same order.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.families.source import Source
from nsys2prv.model.global_ids import process_of
from nsys2prv.model.schemas import to_schema
from nsys2prv.report import schema

WORLD = "MPI_COMM_WORLD"
SELF = "MPI_COMM_SELF"
# Communicator of the windows for one-sided communication of all ranks.
WINDOWS = f"{WORLD} windows"
# Communicators by handle in a process: when they were made (ns), their name, and the rank of the process among `ranks`.
KNOWN_COMMUNICATOR = {
    "process": pl.Int64(),
    "commHandle": pl.Int64(),
    "created": pl.Int64(),
    "communicator": pl.String(),
    "rank": pl.Int64(),
    "ranks": pl.Int64(),
}


def is_of_mpi(communicator: pl.Expr) -> pl.Expr:
    """Return True for the names from here, which all begin with MPI: among members, those of NCCL do not."""
    return communicator.str.starts_with("MPI")


def communicators(source: Source, calls: pl.DataFrame) -> pl.DataFrame:
    """Return communicators of the report's processes: columns of KNOWN_COMMUNICATOR, sorted by `created` (ns).

    `calls`: globalTid, start and commHandle (null: none) of the report's MPI calls. A handle that MPI_COMMUNICATORS
    lacks is named by its place in the order of first use. If the table has no communicator of a process, the first
    handle of the process is taken for the world, with the rank that MPI_RANKS states.
    """
    processes = calls.select(process_of(pl.col("globalTid")).alias("process")).unique()["process"].sort()
    rows = source.table(schema.MPI_COMMUNICATORS).sort("timestamp")
    rank_of = _ranks(source, processes)
    parts = [_named(part, rank_of.get(rank)) for (rank,), part in rows.group_by("rank", maintain_order=True)]
    known = pl.concat([pl.DataFrame(schema=KNOWN_COMMUNICATOR), *parts])
    return pl.concat([known, _unknown(source, calls, known)]).sort("created")


def _ranks(source: Source, processes: pl.Series) -> dict[object, int]:
    """Return process by rank on the world. A single process stands for every rank that its report names."""
    said = source.table(schema.MPI_RANKS).select("rank", process_of(pl.col("globalTid")))
    found: dict[object, int] = dict(said.rows())
    if len(processes) == 1:
        only = int(processes[0])
        others = source.table(schema.MPI_COMMUNICATORS)["rank"].unique()
        found |= {rank: only for rank in others if rank not in found}
    return found


def _named(rows: pl.DataFrame, process: int | None) -> pl.DataFrame:
    """Name one process' communicators in the order of their creation. A loop, since names contain the parent's name."""
    names: dict[int, str] = {}
    made: dict[str, int] = {}
    found: list[tuple[int | None, int, int, str, int, int]] = []
    columns = ["commHandle", "parentHandle", "groupRoot", "groupRootUid", "size", "timestamp", "localRank", "rank"]
    for handle, parent, root, uid, size, created, own, world in rows.select(columns).rows():
        if parent in names and root is not None:
            name = f"{names[parent]}/{root}.{uid or 0}"
        else:
            # MPI_COMM_SELF is each process' own.
            name = WORLD if size != 1 or not found else f"{SELF} of {world}"
        made[name] = made.get(name, 0) + 1
        if made[name] > 1:
            name = f"{name}#{made[name]}"
        names[handle] = name
        found.append((process, handle, created, name, own, size))
    return pl.DataFrame(found, schema=KNOWN_COMMUNICATOR, orient="row").drop_nulls("process")


def _unknown(source: Source, calls: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return handles that no communicator of their process has, numbered by first use."""
    used = calls.select(process=process_of(pl.col("globalTid")), commHandle="commHandle", created="start").drop_nulls()
    first = used.group_by("process", "commHandle").agg(pl.col("created").min())
    left = first.join(known, on=["process", "commHandle"], how="anti").sort("process", "created", "commHandle")
    number = pl.int_range(1, pl.len() + 1).over("process")
    has_world = pl.col("process").is_in(known["process"].unique().implode())
    is_world = (number == 1) & ~has_world
    said = source.table(schema.MPI_RANKS).select(process_of(pl.col("globalTid")).alias("process"), "rank")
    of_world = said.unique("process", keep="first", maintain_order=True)
    ranked = left.join(of_world, on="process", how="left", maintain_order="left")
    named = ranked.with_columns(
        communicator=pl.when(is_world).then(pl.lit(WORLD)).otherwise(pl.format("MPI communicator {}", number)),
        rank=pl.when(is_world).then("rank"),
        ranks=pl.lit(None),
    )
    return to_schema(named, KNOWN_COMMUNICATOR)


def on_communicators(rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Add communicator, rank and ranks of the handle at that time to rows with globalTid, start and commHandle.

    `known` comes from `communicators`.
    """
    keyed = rows.with_columns(process=process_of(pl.col("globalTid"))).with_row_index("row")
    key = ["process", "commHandle"]
    joined = keyed.sort("start").join_asof(known, left_on="start", right_on="created", by=key, check_sortedness=False)
    # The world can be recorded after a first use of it.
    facts = ("communicator", "rank", "ranks")
    first = known.unique(key, keep="first", maintain_order=True).select(*key, *facts)
    filled = joined.join(first, on=key, how="left", suffix="_first", maintain_order="left")
    return (
        filled.with_columns(pl.coalesce(c, f"{c}_first").alias(c) for c in facts)
        .sort("row")
        .drop("row", "created", *(f"{c}_first" for c in facts))
    )


def on_windows(rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of processes whose only communicator is the world, with communicator (WINDOWS), rank and ranks.

    A report does not say of which window a call is. Where the world is the only communicator, each is of all ranks.
    `known` comes from `communicators`.
    """
    shared = known.filter(~pl.col("communicator").str.starts_with(SELF))
    world = shared.filter((pl.col("communicator") == WORLD) & (pl.len().over("process") == 1))
    of_all = world.select("process", "rank", "ranks", communicator=pl.lit(WINDOWS))
    return rows.with_columns(process=process_of(pl.col("globalTid"))).join(of_all, on="process", maintain_order="left")

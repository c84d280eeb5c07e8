"""Versions of the tables: new databases get the present ones, old ones are brought up to them step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl
from sqlalchemy import Connection, column, inspect, select, table, text, update
from sqlalchemy.engine import URL

from nsys2prv.analysis.iterations.iteration_lengths import iteration_lengths
from nsys2prv.database.connection import display_name, transaction
from nsys2prv.database.schema import METADATA, SCHEMA, VERSION
from nsys2prv.errors import OutputError

# What counts for the length of an iteration (see iteration_lengths), as of version 2.
OF_LENGTHS = ("repeat", "iteration", "steady", "start_ns", "total_ns", "device_start_ns", "device_ns")


def _add_device_starts(connection: Connection) -> None:
    """Add the begins of devices, and count the lengths of iterations to the next one, as of new runs."""
    connection.execute(text("ALTER TABLE iterations ADD COLUMN device_start_ns BIGINT"))
    iterations, runs = table("iterations", column("run_id"), *map(column, OF_LENGTHS)), table("runs", column("id"))
    for (run,) in connection.execute(select(runs.c.id)).all():
        rows = connection.execute(select(*(iterations.c[c] for c in OF_LENGTHS)).where(iterations.c.run_id == run))
        schema = {c: pl.Boolean() if c == "steady" else pl.Int64() for c in OF_LENGTHS}
        found = pl.DataFrame([tuple(row) for row in rows], schema=schema, orient="row", strict=False)
        lengths = iteration_lengths(found)
        values = {"ns": float(np.median(lengths)) if len(lengths) else None, "run": run}
        connection.execute(text("UPDATE runs SET iteration_ns = :ns WHERE id = :run"), values)


# Version -> what makes the tables of this version out of those of the version before. What it does is written out, for
# schema.py changes with later versions. tests/data/database keeps a database of each version.
STEPS: Mapping[int, Callable[[Connection], object]] = {
    2: _add_device_starts,
}


def prepare(url: URL) -> None:
    """Make the tables of a database, or bring them to the present version, in one transaction. Raises OutputError."""
    with transaction(url, key=SCHEMA.name) as connection:
        found = version_of(connection, url)
        if found is None:
            METADATA.create_all(connection)
            connection.execute(SCHEMA.insert(), {"version": VERSION})
            return
        for version in range(found + 1, VERSION + 1):
            STEPS[version](connection)
        if found < VERSION:
            connection.execute(update(SCHEMA).values(version=VERSION))


def check_version(connection: Connection, url: URL) -> None:
    """Check that a database to read has the present tables. Raises OutputError."""
    found = version_of(connection, url)
    if found is None:
        raise OutputError(f"{display_name(url)}: no run is recorded there; `nsys2prv record` records one")
    if found < VERSION:
        raise OutputError(
            f"{display_name(url)}: the tables are of an older nsys2prv; record a run into it, which brings them up to "
            "date"
        )


def version_of(connection: Connection, url: URL) -> int | None:
    """Return the version of the tables, None in an empty database. Raises OutputError for those of others."""
    names = inspect(connection).get_table_names()
    if SCHEMA.name not in names:
        if strange := sorted({*names} & {*METADATA.tables} or ({*names} if url.get_backend_name() == "sqlite" else {})):
            raise OutputError(
                f"{display_name(url)}: this database has other tables, such as {strange[0]}; give runs one of their own"
            )
        return None
    found = connection.execute(select(SCHEMA.c.version)).scalar_one()
    if found > VERSION:
        raise OutputError(
            f"{display_name(url)}: the tables are of a newer nsys2prv; update nsys2prv, or choose another --db"
        )
    return int(found)

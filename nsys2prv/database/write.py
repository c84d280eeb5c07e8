"""Writing runs to a database, each whole or not at all."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import delete, insert, select

from nsys2prv.database.connection import address, transaction
from nsys2prv.database.migrations import check_version
from nsys2prv.database.recorded import Recorded
from nsys2prv.database.run_record import RunRecord
from nsys2prv.database.schema import RUNS


def store(db: str | Path, record: RunRecord) -> Recorded:
    """Write a run in one transaction, in the place of one of the same name and reports. Raises OutputError."""
    url, run = address(db), record.run
    with transaction(url, key=f"{run['name']} {run['reports_hash']}") as connection:
        check_version(connection, url)
        same = (RUNS.c.name == run["name"]) & (RUNS.c.reports_hash == run["reports_hash"])
        former = connection.execute(select(RUNS.c.id).where(same)).scalar_one_or_none()
        connection.execute(delete(RUNS).where(same))
        # A run that is recorded again keeps its number.
        own = {} if former is None else {"id": former}
        (number,) = connection.execute(insert(RUNS).values({**run, **own})).inserted_primary_key or (None,)
        for table, rows in record.parts.items():
            if rows:
                connection.execute(insert(table), [{**row, "run_id": number} for row in rows])
    # With the address as it was given: to compare with the run, it is connected to again.
    return Recorded(db, run["name"], number, former is not None)

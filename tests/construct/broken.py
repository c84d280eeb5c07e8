"""Files that are no reports, each under the name of a report whose place it takes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from .report import Sources, listed, place


def empty_file(sources: Sources, folder: Path) -> list[Path]:
    """A file of no bytes (which SQLite opens as an empty database).

    Truth: refused by name.
    """
    return _written(sources, folder, b"")


def truncated(sources: Sources, folder: Path, kept: float = 0.5) -> list[Path]:
    """The first part of the report's bytes, as a broken copy leaves; in whole bytes, not pages.

    Truth: refused by name; the head is that of a database, tables are listed, and reading some of them fails.
    """
    made = []
    for source in listed(sources):
        data = source.read_bytes()
        target = place(source, folder)
        target.write_bytes(data[: int(len(data) * kept)])
        made.append(target)
    return made


def not_sqlite(sources: Sources, folder: Path) -> list[Path]:
    """A text file.

    Truth: refused by name.
    """
    return _written(sources, folder, b"This is a text and no database.\n" * 200)


def foreign_sqlite(sources: Sources, folder: Path) -> list[Path]:
    """A sound SQLite database of something else, which even has a table with a familiar name.

    Truth: refused by name, as no report of Nsight Systems.
    """
    made = []
    for source in listed(sources):
        target = place(source, folder)
        connection = sqlite3.connect(target)
        with connection:
            connection.execute("CREATE TABLE birds(id INTEGER PRIMARY KEY, name TEXT, seen TEXT)")
            connection.executemany("INSERT INTO birds(name, seen) VALUES (?, ?)", [("wren", "May"), ("coot", "June")])
            connection.execute("CREATE TABLE PROCESSES(title TEXT, owner TEXT)")
            connection.execute("INSERT INTO PROCESSES VALUES ('hiring', 'office')")
        connection.close()
        made.append(target)
    return made


def _written(sources: Sources, folder: Path, data: bytes) -> list[Path]:
    made = []
    for source in listed(sources):
        target = place(source, folder)
        target.write_bytes(data)
        made.append(target)
    return made

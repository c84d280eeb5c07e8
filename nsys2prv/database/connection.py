"""Connections to a database of runs: its address, its locks, and errors as one line."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from nsys2prv.errors import OutputError, UsageError
from nsys2prv.model.words import short
from nsys2prv.report.nsys import ENDINGS, RAW

SQLITE, POSTGRESQL = "sqlite", "postgresql"
ADVICE_KIND = "give the path of an SQLite file, or a URL such as postgresql://host/runs"
# Seconds that a writer waits for the others: each takes some tens of ms, and a job array may have thousands.
LONGEST_WAIT_S = 600
# First key of the advisory locks that PostgreSQL gives us.
FIRST_LOCK_KEY = 70_000_000
CAUSE_WIDTH = 200
# Messages of PostgreSQL when it takes no further client.
FULL_MESSAGES = ("too many clients", "remaining connection slots")


def address(db: str | Path) -> URL:
    """Return the URL of a database; a plain path is an SQLite file. Raises UsageError."""
    if isinstance(db, Path) or "://" not in db:
        return URL.create(SQLITE, database=str(db))
    try:
        url = make_url(db)
    except (ArgumentError, ValueError):
        raise UsageError(f"{_without_password(db)}: this is no URL of a database; {ADVICE_KIND}") from None
    kind = url.get_backend_name()
    if kind == "postgres":
        url, kind = url.set(drivername=POSTGRESQL), POSTGRESQL
    if kind not in (SQLITE, POSTGRESQL):
        raise UsageError(f"{display_name(url)}: runs are kept in SQLite or PostgreSQL; {ADVICE_KIND}")
    return url.set(drivername="postgresql+psycopg") if url.drivername == POSTGRESQL else url


def display_name(url: URL) -> str:
    """Return what a database is called in messages: its file, or its URL without the password."""
    if url.get_backend_name() == SQLITE and url.database:
        return url.database
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def _without_password(db: str) -> str:
    scheme, _, rest = db.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


@contextmanager
def transaction(url: URL, key: str | None = None) -> Iterator[Connection]:
    """Open a transaction, which is written whole at the end of the context, or not at all. Raises OutputError.

    `key`: nobody else writes what has this key meanwhile; without one the transaction only reads. SQLite has one writer
    at a time, which the others wait for. Its journal is the usual one: a write-ahead log would not work on file systems
    of several hosts.
    """
    engine = _engine(url, write=key is not None)
    try:
        with _connected(engine) as connection, connection.begin():
            if key is not None and engine.dialect.name == POSTGRESQL:
                lock = text("SELECT pg_advisory_xact_lock(:locks, :key)")
                connection.execute(lock, {"locks": FIRST_LOCK_KEY, "key": crc32(key.encode()) - 2**31})
            yield connection
    except SQLAlchemyError as error:
        cause = " ".join(str(getattr(error, "orig", None) or error).split())
        advice = "check that it is there, and that you may write to it"
        raise OutputError(
            f"{display_name(url)}: the database cannot be used ({short(cause, CAUSE_WIDTH)}); {advice}"
        ) from None
    finally:
        engine.dispose()


def _connected(engine: Engine) -> Connection:
    """Connect, and wait while a server has as many clients as it takes."""
    last = time.monotonic() + LONGEST_WAIT_S
    while True:
        try:
            return engine.connect()
        except OperationalError as error:
            if not any(full in str(error.orig) for full in FULL_MESSAGES) or time.monotonic() > last:
                raise
        time.sleep(random.uniform(0.05, 0.5))


def _engine(url: URL, write: bool) -> Engine:
    """Make an engine whose transactions on SQLite begin as those of a writer, if they write."""
    of_file = url.get_backend_name() == SQLITE
    if of_file:
        _check_file(url, write)
    try:
        engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": LONGEST_WAIT_S} if of_file else {})
    except ImportError as error:
        cause = f"PostgreSQL needs psycopg, which does not load ({short(str(error), CAUSE_WIDTH)})"
        raise UsageError(f"{display_name(url)}: {cause}; pip install '.[postgres]' in the clone") from None
    except (NoSuchModuleError, ArgumentError) as error:
        raise UsageError(f"{display_name(url)}: {short(str(error), CAUSE_WIDTH)}; {ADVICE_KIND}") from None
    if of_file:
        begin = "BEGIN IMMEDIATE" if write else "BEGIN"

        def set_up(connection: Any, _: object) -> None:
            # Without this Python's driver begins transactions by itself, late.
            connection.isolation_level = None
            connection.execute("PRAGMA foreign_keys=ON")

        event.listen(engine, "connect", set_up)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _check_file(url: URL, write: bool) -> None:
    """Refuse a file that is none, or a report. Raises OutputError or UsageError."""
    path = Path(url.database or "")
    if not url.database or url.database == ":memory:":
        raise UsageError(f"{url.render_as_string()}: this names no file; {ADVICE_KIND}")
    if path.name.endswith((ENDINGS["sqlite"], *RAW)):
        raise UsageError(f"{path}: a report is called so; name the database otherwise, such as runs.db")
    if path.is_dir():
        raise OutputError(f"{path}: this is a folder; name a file in it")
    if not path.parent.is_dir():
        raise OutputError(f"{path.parent}: no such folder; create it or choose another file")
    if not write and not path.exists():
        raise UsageError(f"{path}: there is no such database; `nsys2prv record` makes one")

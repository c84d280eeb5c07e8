"""A private PostgreSQL server, where one is installed: on a socket of its own, removed after the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

DEBIAN = Path("/usr/lib/postgresql")
# Few clients, so that many writers have to wait for each other.
OPTIONS = "-c listen_addresses='' -c max_connections=12 -c fsync=off -k {}"


class Server:
    """A server with databases that are made when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = count(1)

    def new_database(self) -> str:
        """The URL of a database with nothing in it."""
        import psycopg

        name = f"runs{next(self._numbers)}"
        with psycopg.connect(f"postgresql://tests@/postgres?host={self.folder}", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://tests@/{name}?host={self.folder}"


def _programs() -> Path | None:
    """The folder of PostgreSQL's programs."""
    installed = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = str(installed[-1]) if installed else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


@contextmanager
def server() -> Iterator[Server]:
    """Start a server; the test is skipped where PostgreSQL or psycopg is not installed."""
    programs = _programs()
    if programs is None:
        pytest.skip("no PostgreSQL: there is no initdb")
    pytest.importorskip("psycopg")
    # PostgreSQL does not run as root. The path of a socket has to be short.
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="nsys2prv-pg-") as name:
        folder, data = Path(name), Path(name) / "data"
        if as_user:
            shutil.chown(folder, "postgres")

        def run(program: str, *options: str) -> None:
            log = folder / "log"
            command = [*as_user, str(programs / program), "-D", str(data), *options]
            with log.open("a") as file:
                done = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, cwd=folder, check=False)
            assert done.returncode == 0, log.read_text()

        run("initdb", "-U", "tests", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        run("pg_ctl", "-w", "-o", OPTIONS.format(folder), "start")
        try:
            yield Server(folder)
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")

"""Addresses of databases, errors as one line, versions of the tables, many writers at once."""

from __future__ import annotations

import re
import runpy
import sqlite3
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

import pytest
from runs import ROOT, SAMPLES, Command
from sqlalchemy import Connection, inspect, text

import nsys2prv
from nsys2prv.analysis.iterations.iteration_times import ITERATION
from nsys2prv.database import migrations
from nsys2prv.database.connection import address, display_name, transaction
from nsys2prv.database.schema import METADATA, RUNS, SCHEMA, VERSION

MANY = runpy.run_path(str(ROOT / "benchmarks" / "record_many.py"))
# A database of each version with one run in it, as SQL.
OLD = sorted((ROOT / "tests" / "data" / "database").glob("*.sql"))


def columns(db: str) -> dict[str, set[str]]:
    with transaction(address(db)) as connection:
        found = inspect(connection)
        return {table: {column["name"] for column in found.get_columns(table)} for table in found.get_table_names()}


def of_sql(path: Path, script: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script.read_text())
    return str(path)


def test_many_write_at_once_and_the_killed_leave_nothing(db: str) -> None:
    record = MANY["analyzed"](SAMPLES / "mpi-halo")
    statements = MANY["plan"](16, 5, seed=3)
    ends = MANY["record_at_once"](db, record, statements)
    assert MANY["wrong"](db, record, statements, ends) == []
    assert nsys2prv.history(db).runs.height == 11


def test_what_is_missing_is_found(db: str, before: Path) -> None:
    """The check of the test above can fail."""
    record = MANY["analyzed"](before)
    ends = MANY["record_at_once"](db, record, {"one": None, "two": None})
    with transaction(address(db), key="test") as connection:
        connection.execute(text("DELETE FROM figures WHERE run_id = 1 AND position = 0"))
    found = MANY["wrong"](db, record, {"one": None, "two": None, "three": None}, {**ends, "three": 0})
    assert [line.partition(":")[0] for line in found] == ["three is missing", "figures"]


@pytest.mark.parametrize("script", OLD, ids=lambda path: path.stem)
def test_a_database_of_an_older_version_is_brought_up_to_date(script: Path, tmp_path: Path, before: Path) -> None:
    old = of_sql(tmp_path / "old.db", script)
    nsys2prv.record(before, old, name="new")
    nsys2prv.record(before, fresh := str(tmp_path / "fresh.db"))
    assert columns(old) == columns(fresh)
    times = dict(nsys2prv.history(old).runs.select("name", "iteration_ns").rows())
    assert times == {"old": 100_000, "new": 100_000}
    assert nsys2prv.compare(nsys2prv.Recorded(old, "old"), before).verdict.change == "none"


def test_there_is_a_database_of_each_version_to_test_with() -> None:
    assert [path.stem for path in OLD] == [str(version) for version in range(1, VERSION + 1)]
    assert sorted(migrations.STEPS) == list(range(2, VERSION + 1))


def test_steps_are_taken_once_in_order_and_whole(db: str, before: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nsys2prv.record(before, db, name="old")

    def adds(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE runs ADD COLUMN place TEXT"))

    def fails(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE runs DROP COLUMN place"))
        raise OSError("no room")

    monkeypatch.setattr(migrations, "VERSION", VERSION + 2)
    monkeypatch.setattr(migrations, "STEPS", MappingProxyType({VERSION + 1: adds, VERSION + 2: fails}))
    with pytest.raises(nsys2prv.Nsys2prvError, match=r"are of an older nsys2prv; record a run into it"):
        nsys2prv.history(db)
    with pytest.raises(OSError, match="no room"):
        nsys2prv.record(before, db)
    assert "place" not in columns(db)["runs"]
    monkeypatch.setattr(
        migrations, "STEPS", MappingProxyType({VERSION + 1: adds, VERSION + 2: lambda connection: None})
    )
    for name in ("new", "newer"):
        nsys2prv.record(before, db, name=name)
    assert "place" in columns(db)["runs"]
    assert nsys2prv.history(db).runs.height == 3
    monkeypatch.undo()
    with pytest.raises(nsys2prv.Nsys2prvError, match=r"are of a newer nsys2prv; update nsys2prv"):
        nsys2prv.record(before, db)


def test_a_database_of_others_is_left_alone(before: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE mine (x)")
    bytes_before = path.read_bytes()
    for ask in (lambda: nsys2prv.record(before, path), lambda: nsys2prv.history(path)):
        with pytest.raises(nsys2prv.Nsys2prvError, match=r"has other tables, such as mine; give runs one of their own"):
            ask()
    assert path.read_bytes() == bytes_before


@pytest.mark.parametrize(
    ("db", "code", "said"),
    [
        ("mysql://user:secret@host/runs", 2, "mysql://user:***@host/runs: runs are kept in SQLite or PostgreSQL"),
        ("postgresql://user:secret@host:port/runs", 2, "postgresql://host:port/runs: this is no URL of a database"),
        ("sqlite://", 2, "sqlite://: this names no file"),
        ("before.sqlite", 2, "before.sqlite: a report is called so; name the database otherwise, such as runs.db"),
        (".", 1, ".: this is a folder; name a file in it"),
        ("none/runs.db", 1, "none: no such folder"),
        ("text.db", 1, "text.db: the database cannot be used (file is not a database)"),
        ("postgresql:///runs?host=/none", 1, "/runs?host=%2Fnone: the database cannot be used (connection"),
    ],
)
def test_what_cannot_be_a_database_is_refused_in_one_line(
    db: str, code: int, said: str, cli: Command, before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if db.startswith("postgresql:///"):
        pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    Path("text.db").write_text("This is a text, and long enough to be looked at. " * 20)
    refused = cli("record", before, "--db", db)
    assert (refused.code, refused.err.count("\n")) == (code, 1)
    assert said in refused.err
    assert "secret" not in refused.err


def test_what_is_not_there_is_not_made_by_looking(cli: Command, tmp_path: Path) -> None:
    said = cli("history", "--db", tmp_path / "runs.db")
    assert (said.code, "there is no such database" in said.err) == (2, True)
    assert not list(tmp_path.iterdir())


def test_paths_and_urls_name_one_database_and_passwords_are_hidden() -> None:
    assert str(address("runs.db")) == str(address(Path("runs.db"))) == str(address("sqlite:///runs.db"))
    assert address("postgres://host/runs").drivername == address("postgresql://host/runs").drivername
    assert display_name(address("postgresql://user:secret@host/runs")) == "postgresql://user:***@host/runs"
    assert display_name(address("sqlite:////tmp/runs.db")) == "/tmp/runs.db"


def test_the_tables_have_what_a_comparison_reads() -> None:
    assert {column.name for column in METADATA.tables["iterations"].columns} == {"run_id", *ITERATION}


def test_every_column_is_explained() -> None:
    page = (ROOT / "docs" / "database.md").read_text()
    assert SCHEMA.name in page
    for table in METADATA.tables.values():
        assert re.search(rf"`{table.name}`", page)
        assert [column.name for column in table.columns if not column.comment] == []
    assert RUNS.comment

"""Record runs into one database from many processes at once, some of which are killed in the middle of it.

    python benchmarks/record_many.py DB RUN [--processes 64] [--kill 20] [--seed 1]

DB is an SQLite file that does not exist yet, or the URL of an empty PostgreSQL database. RUN is analyzed once; then
every process makes the tables if they are not there, and records the run under a name of its own. Those to be killed
end themselves with SIGKILL before a statement of their transaction, or before its end. Afterwards all others must be
there, whole, and nothing of the killed ones.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event, func, select

from nsys2prv.database.connection import address, transaction
from nsys2prv.database.migrations import prepare
from nsys2prv.database.run_record import RunRecord, store
from nsys2prv.database.schema import METADATA, PARTS, RUNS

# Statements of the transaction that records a run: one more than these is its end.
STATEMENTS = 12
ANALYZE = """
import pickle, sys
from pathlib import Path
import nsys2prv
from nsys2prv.database.run_record import run_record
made = run_record(nsys2prv.analyze(sys.argv[1]), "run", None, [])
Path(sys.argv[2]).write_bytes(pickle.dumps((made.run, {table.name: rows for table, rows in made.parts.items()})))
"""


def analyzed(run: Path) -> RunRecord:
    """The rows of a run. Another process makes them: this one forks, and threads of Polars would be in the way."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        subprocess.run([sys.executable, "-c", ANALYZE, run, rows], check=True)
        of_run, parts = pickle.loads(rows.read_bytes())
    return RunRecord(of_run, {METADATA.tables[name]: part for name, part in parts.items()})


def _killed_before(statement: int) -> None:
    """Let this process kill itself before that statement of a transaction, or before the transaction's end."""
    done = Counter[str]()

    def count(connection: Connection, cursor: Any, text: str, *_: object) -> None:
        done["statements"] += 1
        if done["statements"] == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", lambda connection: os.kill(os.getpid(), signal.SIGKILL))


def _record(db: str, record: RunRecord, name: str, statement: int | None, go: int) -> None:
    """Record a run, as the whole life of a forked process that begins when the pipe `go` is closed."""
    os.read(go, 1)
    prepare(address(db))
    if statement is not None:
        _killed_before(statement)
    store(db, record._replace(run={**record.run, "name": name}))


def record_at_once(db: str, record: RunRecord, statements: Mapping[str, int | None]) -> dict[str, int]:
    """Record under each name at once, killed before that statement (None: not killed). Return the ends by name."""
    go, start = os.pipe()
    children: dict[int, str] = {}
    for name, statement in statements.items():
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(start)
                _record(db, record, name, statement, go)
                code = 0
            finally:
                os._exit(code)
        children[child] = name
    os.close(go)
    os.close(start)
    return {name: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child, name in children.items()}


def plan(processes: int, kill: int, seed: int) -> dict[str, int | None]:
    """Names of the runs, with the statement before which each is killed."""
    dice = random.Random(seed)
    killed = set(dice.sample(range(processes), kill))
    return {f"run-{n:03}": dice.randint(1, STATEMENTS) if n in killed else None for n in range(processes)}


def wrong(db: str, record: RunRecord, statements: Mapping[str, int | None], ends: Mapping[str, int]) -> list[str]:
    """What is not as it must be, in words: nothing, that is."""
    expected = {name: 0 if statement is None else -signal.SIGKILL for name, statement in statements.items()}
    found = [f"{name} ended with {ends[name]}, not {end}" for name, end in expected.items() if ends[name] != end]
    with transaction(address(db)) as connection:
        numbers = dict(connection.execute(select(RUNS.c.name, RUNS.c.id)).all())
        names = {name for name, statement in statements.items() if statement is None}
        found += [f"{name} is missing" for name in sorted(names - numbers.keys())]
        found += [f"{name} is there, although it was killed" for name in sorted(numbers.keys() - names)]
        for table in PARTS:
            counted = connection.execute(select(table.c.run_id, func.count()).group_by(table.c.run_id))
            counts: dict[int, int] = dict(counted.all())
            rows = len(record.parts[table])
            whole = dict.fromkeys(numbers.values(), rows) if rows else {}
            found += [f"{table.name}: {counts} rows by run, not {whole}"] if counts != whole else []
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("db", metavar="DB")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--processes", type=int, default=64, metavar="N", help="that record at once (64)")
    parser.add_argument("--kill", type=int, default=20, metavar="N", help="of them that are killed (20)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of what is killed when (1)")
    given = parser.parse_args(arguments)
    record = analyzed(given.run)
    statements = plan(given.processes, given.kill, given.seed)
    began = time.perf_counter()
    ends = record_at_once(given.db, record, statements)
    seconds = time.perf_counter() - began
    bad = wrong(given.db, record, statements, ends)
    rows = 1 + sum(map(len, record.parts.values()))
    print(f"{given.processes} processes of {rows} rows each, {given.kill} of them killed: {seconds:.2f} s")
    print("\n".join(bad) or "all others are there, whole")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()

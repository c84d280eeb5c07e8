"""Tables of an SQLite report that are read while Python still loads what works on them.

To load Polars, NumPy and this package takes about as long as SQLite takes for a million rows of GPU metrics, and
another core is free meanwhile: what is here needs none of them. Nothing depends on it. A table that has not been begun
is read as ever, and so is one that could not be read, to say why.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType

import adbc_driver_sqlite
from adbc_driver_manager import AdbcConnection, AdbcStatement

from nsys2prv.report import sql
from nsys2prv.report.limits import WHOLE_BYTES, WORD
from nsys2prv.report.names import missing, resolve, sources
from nsys2prv.report.schema import Table

# Values of a table from which on it is worth a query of its own so early: to ask, a thread waits some milliseconds for
# the interpreter, which is busy loading.
WORTH = 1 << 18


class Asked:
    """A query that has been asked: `stream` gives its rows as Arrow, the first `batch` of which are in memory."""

    def __init__(self, connection: AdbcConnection, query: str, batch: int) -> None:
        self._statement = AdbcStatement(connection)
        try:
            self._statement.set_options(**{"adbc.sqlite.query.batch_rows": str(batch)})
            self._statement.set_sql_query(query)
            self.stream, _ = self._statement.execute_query()
        except BaseException:
            self._statement.close()
            raise

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._statement.close()


class _Reading:
    """Queries of whole tables of one report, answered on a thread one after the other."""

    def __init__(self, path: Path, columns: Mapping[Table, tuple[str, ...]]) -> None:
        self.path = path.resolve()
        self._thread = ThreadPoolExecutor(1)
        self._database = adbc_driver_sqlite.connect(sql.address(self.path))
        queries = _queries(self.path, columns)
        self._begun = {query: self._thread.submit(self._ask, query, rows) for query, rows in queries.items()}

    def _ask(self, query: str, rows: int) -> Asked:
        # A connection each: ADBC keeps one to itself while it fills a batch, and to hand out the batch before it waits.
        return Asked(AdbcConnection(self._database), query, rows)

    def take(self, query: str) -> Asked | None:
        """The answer, once; None for what was not asked, has not been begun, or could not be read."""
        found = self._begun.pop(query, None)
        try:
            return None if found is None or found.cancel() else found.result()
        except Exception:
            return None

    def end(self) -> None:
        """Begin nothing further."""
        self._thread.shutdown(wait=False, cancel_futures=True)


_under_way: list[_Reading] = []


@contextmanager
def reading(path: Path, columns: Mapping[Table, tuple[str, ...]]) -> Iterator[None]:
    """Within it these columns of a report are read ahead, where they are little enough to be worked on whole."""
    with ExitStack() as stack:
        # Who opens the report says what is wrong with it.
        with suppress(Exception):
            begun = _Reading(path, columns)
            stack.callback(begun.end)
            _under_way.append(begun)
            stack.callback(_under_way.remove, begun)
        yield


def take(path: Path, query: str) -> Asked | None:
    """What was read ahead for a query, to be closed; None where nothing was."""
    where = path.resolve() if _under_way else path
    return next((asked for r in _under_way if r.path == where and (asked := r.take(query)) is not None), None)


def _queries(path: Path, columns: Mapping[Table, tuple[str, ...]]) -> dict[str, int]:
    """Queries of the larger tables as `SqliteTables.read` asks them, and how many rows each has at most.

    None where the report is to be cut into slices.
    """
    queries: dict[str, int] = {}
    size = 0
    with closing(sqlite3.connect(sql.address(path), uri=True)) as report:
        present: dict[str, list[str]] = {}
        for table, column in report.execute(sql.COLUMNS):
            present.setdefault(table.decode(), []).append(column.decode())
        names = resolve(columns, present)
        for table, wanted in columns.items():
            name = names.get(table.name)
            if name is None or missing(present[name], table):
                continue
            first, last = report.execute(sql.row_ids(name)).fetchone()
            rows = 0 if first is None else last - first + 1
            size += rows * len(wanted) * WORD
            if rows * len(wanted) >= WORTH:
                held = sources(present[name], {c: table.columns[c] for c in wanted})
                queries[sql.selection(name, held, sql.quoted, "")] = rows
    return queries if size <= WHOLE_BYTES else {}

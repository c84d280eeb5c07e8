"""SQLite exports, read as Arrow through ADBC (about 3 times faster than sqlite3's rows)."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import adbc_driver_sqlite
import polars as pl
from adbc_driver_manager import AdbcConnection, AdbcStatement

from nsys2prv.errors import ReportError
from nsys2prv.report import sql
from nsys2prv.report.declaration import TIME_LIMIT, HeldColumns
from nsys2prv.report.sql import integers, quoted, selection
from nsys2prv.report.tables import DTYPES, ReadPiece, ReadRows

MAGIC = b"SQLite format 3\0"
# Rows an Arrow batch: ADBC's 1,024 costs a third of the reading time.
BATCH_ROWS = 1 << 16
# Values in place of NULL in columns whose type ADBC cannot infer from NULL.
_EMPTY: dict[str, str | bytes] = {"text": "", "real": "", "blob": b""}
ADVICE_NVPROF = "record it again with `nvprof -o`"
ADVICE_EXPORT = "export the report again with `nsys export --type sqlite`"


def check_file(path: Path) -> None:
    """Check a file before SQLite opens it, for a clearer message. Raises ReportError."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
        size = path.stat().st_size
    except OSError as error:
        raise ReportError(path, f"cannot be read ({error.strerror})", "check the path and its permissions") from None
    if not size:
        raise ReportError(path, "the file is empty", ADVICE_EXPORT)
    if header.lstrip().startswith(b"<?xml"):
        cause = "this is an XML project of the NVIDIA Visual Profiler, which has no events"
        raise ReportError(path, cause, "give the .nvprof files that it was made of, or record with `nvprof -o`")
    if not header.startswith(MAGIC):
        raise ReportError(path, "this is not an SQLite file", "give a report (.sqlite, .nsys-rep) or an export folder")
    # Offsets 16 and 28 of the header: page size and number of pages (sqlite.org/fileformat2.html).
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    if size < pages * (65536 if page == 1 else page):
        raise ReportError(path, "the file is truncated", "copy it again, or " + ADVICE_EXPORT)
    if (beside := _unfinished(path.resolve())) is not None:
        raise ReportError(
            path,
            f"{beside.name} beside it says that it is being written, or that what wrote it was killed",
            f"wait, or open it once with sqlite3, which finishes or undoes that; or {ADVICE_EXPORT}",
        )


def _unfinished(path: Path) -> Path | None:
    """Return SQLite's journal or log with changes that are not in the file (sqlite.org/fileformat2.html).

    SQLite does not look for it, since the file is opened as one that nobody writes.
    """
    log, journal = (path.with_name(path.name + ending) for ending in ("-wal", "-journal"))
    with suppress(OSError):
        if log.stat().st_size:
            return log
    with suppress(OSError), journal.open("rb") as file:
        # A finished journal is empty, or begins with zeros.
        if any(file.read(8)):
            return journal
    return None


class Views(NamedTuple):
    """Views that give another profiler's database the tables of an export: see `nvprof`.

    `setup`: statements that make them, of each connection. `covered`: tables of the database that they stand for, or
    that hold no events.
    """

    setup: tuple[str, ...]
    covered: frozenset[str]


class SqliteTables:
    """One SQLite export. Opened read-only; nothing is written beside it."""

    def __init__(self, path: Path, views: Views | None = None) -> None:
        check_file(path)
        self.path, self._views = path, views
        # ADBC's own interface, not its DB-API: that one imports pandas, half of the start-up time.
        self._database = adbc_driver_sqlite.connect(sql.address(path))
        # A connection a thread: tables are read ahead while others are worked on.
        self._own = threading.local()
        self._connections: list[AdbcConnection] = []
        try:
            self._schema = self._inspect("table")
            if views is not None:
                others = {name: held for name, held in self._schema.items() if name not in views.covered}
                self._schema = others | self._inspect("view", "temp")
        except ReportError:
            self.close()
            raise

    def _inspect(self, kind: str, schema: str = "main") -> dict[str, list[str]]:
        """Return columns by table, or by view."""
        listed = self.query(sql.columns_of(kind, schema))
        if listed.is_empty():
            return {}
        names = pl.DataFrame([_decoded(column) for column in listed])
        return dict(names.group_by("table", maintain_order=True).agg("column").rows())

    def _error(self, error: Exception) -> ReportError:
        cause = str(error).splitlines()[0] if str(error) else type(error).__name__
        # What SQLite itself says follows the names of the driver's states.
        cause = re.sub(r"^.*\[SQLite\] (?:Failed to \w+ \w+: )?", "", cause)
        return ReportError(
            self.path, f"SQLite cannot read it ({cause})", ADVICE_NVPROF if self._views else ADVICE_EXPORT
        )

    def names(self) -> Sequence[str]:
        """See Tables."""
        return list(self._schema)

    def columns(self, name: str) -> Sequence[str]:
        """See Tables."""
        return self._schema[name]

    def views(self) -> Mapping[str, Sequence[str]]:
        """See Tables."""
        return self._inspect("view")

    def count(self, name: str) -> int:
        """See Tables."""
        return int(self.query(f"SELECT count(*) AS n FROM {quoted(name)}")["n"][0])

    def at_most(self, name: str) -> int:
        """See Tables."""
        low, high = self._rowids(name)
        return high - low + 1 if self._close(low, high) else self.count(name)

    def rows_reader(self, name: str, columns: HeldColumns) -> ReadRows | None:
        """See Tables: where rows were deleted their numbers do not tell how many are before one."""
        return None

    def bounds(self, name: str, column: str) -> tuple[int | None, int | None]:
        """See Tables."""
        value = integers(column)
        plausible = f"{value} BETWEEN {-TIME_LIMIT} AND {TIME_LIMIT}"
        query = f"SELECT min({value}) AS low, max({value}) AS high FROM {quoted(name)} WHERE {plausible}"
        return self.query(query).row(0)

    def read(self, name: str, columns: HeldColumns) -> pl.DataFrame:
        """See Tables. Every column is cast in SQL: ADBC infers a column's type from the first rows it sees.

        Without rows it takes every column for integers.
        """
        return self._select(name, columns, "")

    def read_together(self, wanted: Mapping[str, HeldColumns]) -> None:
        """See Tables."""

    def pieces(
        self, name: str, columns: HeldColumns, equal: Mapping[str, Sequence[int]], rows: int
    ) -> Sequence[ReadPiece]:
        """See Tables. A piece is a range of rowids."""
        chosen = [f"{quoted(c)} IN ({', '.join(str(int(v)) for v in values)})" for c, values in equal.items()]
        low, high = self._rowids(name)
        if self._close(low, high):
            first = [*range(low, high + 1, rows)]
        else:
            first = self.query(sql.every(name, rows))["first"].to_list()
        ranges = (f"rowid BETWEEN {a} AND {b - 1}" for a, b in pairwise([*first, high + 1]))
        return [partial(self._select, name, columns, " WHERE " + " AND ".join([r, *chosen])) for r in ranges]

    def some(self, name: str, column: str, count: int) -> pl.Series:
        """See Tables."""
        low, high = self._rowids(name)
        rows = ", ".join(str(n) for n in range(low, high + 1, max((high - low + 1) // count, 1)))
        found = self.query(f"SELECT {integers(column)} AS value FROM {quoted(name)} WHERE rowid IN ({rows})")
        return found["value"].cast(pl.Int64)

    def _rowids(self, name: str) -> tuple[int, int]:
        """Return first and last rowid; (0, -1) without rows."""
        first, last = self.query(sql.row_ids(name)).row(0)
        return (0, -1) if first is None else (first, last)

    def _close(self, low: int, high: int) -> bool:
        """Return True if rowids are dense enough to give the number of rows: a row takes two bytes at least."""
        return high - low < self.path.stat().st_size // 2

    def _select(self, name: str, columns: HeldColumns, where: str) -> pl.DataFrame:
        frame = self._as_kept(name, columns, where)
        if frame is None:
            frame = self.query(selection(name, columns, integers, where))
        if frame.is_empty():
            return pl.DataFrame(schema={n: DTYPES[c.kind] for n, (_, c) in columns.items()})
        return pl.DataFrame([_typed(frame[n], c.kind) for n, (_, c) in columns.items()])

    def _as_kept(self, name: str, columns: HeldColumns, where: str) -> pl.DataFrame | None:
        """Read rows with integers uncast, a third quicker; None if any value is stored as another type.

        ADBC takes a column's type from its first rows, and refuses what is of another type further on.
        """
        try:
            frame = self.query(selection(name, columns, quoted, where))
        except ReportError:
            return None
        whole = all(frame.schema[n] == pl.Int64 for n, (_, c) in columns.items() if c.kind == "int")
        return frame if whole else None

    def _connection(self) -> AdbcConnection:
        if not hasattr(self._own, "connection"):
            self._own.connection = AdbcConnection(self._database)
            self._connections.append(self._own.connection)
            for statement in self._views.setup if self._views else ():
                self.query(statement)
        connection: AdbcConnection = self._own.connection
        return connection

    def query(self, query: str) -> pl.DataFrame:
        """Return the result of any query, in the types that ADBC infers. Raises ReportError."""
        try:
            with closing(AdbcStatement(self._connection())) as statement:
                statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
                statement.set_sql_query(query)
                rows, _ = statement.execute_query()
                return pl.DataFrame(rows)
        except (Exception, pl.exceptions.PanicException) as error:
            raise self._error(error) from None

    def close(self) -> None:
        """See Tables."""
        # A query that an interrupt left open prevents closing. This error must not hide the interrupt.
        with suppress(RuntimeError):
            for connection in self._connections:
                connection.close()
            self._database.close()
        self._connections.clear()


def _typed(values: pl.Series, kind: str) -> pl.Series:
    """Return a column in the type of its kind, null where it has the value in place of NULL.

    Series by series: an expression costs more than all values of a small table, and a report has many such tables.
    """
    if kind == "int":
        return values.cast(DTYPES[kind])
    if kind == "text":
        values = _decoded(values)
    given = values != pl.Series([_EMPTY[kind]], dtype=values.dtype)
    if not given.all():
        values = values.zip_with(given, pl.Series([None], dtype=values.dtype))
    return values.cast(DTYPES[kind])


def _decoded(texts: pl.Series) -> pl.Series:
    """Decode texts from their bytes; bytes that are no UTF-8 are replaced by U+FFFD."""
    try:
        return texts.cast(pl.String)
    except pl.exceptions.ComputeError:
        distinct = texts.drop_nulls().unique()
        readable = [bytes(text).decode(errors="replace") for text in distinct]
        decoded = pl.DataFrame({"raw": distinct, texts.name: pl.Series(readable, dtype=pl.String)})
        return texts.to_frame("raw").join(decoded, on="raw", how="left", maintain_order="left")[texts.name]

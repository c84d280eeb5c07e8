"""SQLite exports, read as Arrow through ADBC (about 3 times faster than sqlite3's rows)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

import adbc_driver_sqlite
import polars as pl
from adbc_driver_manager import AdbcConnection, AdbcStatement

from nsys2prv.errors import ReportError
from nsys2prv.report.schema import TIME_LIMIT, Column
from nsys2prv.report.tables import DTYPES, ReadPiece

MAGIC = b"SQLite format 3\0"
# Rows an Arrow batch: ADBC's 1,024 costs a third of the reading time.
BATCH_ROWS = 1 << 16
# What stands for NULL in columns whose type ADBC would not infer from it.
_EMPTY: dict[str, str | bytes] = {"text": "", "real": "", "blob": b""}
ADVICE_EXPORT = "export the report again with `nsys export --type sqlite`"


def check_file(path: Path) -> None:
    """Say plainly what is wrong with a file before SQLite is asked. Raises ReportError."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
        size = path.stat().st_size
    except OSError as error:
        raise ReportError(path, f"cannot be read ({error.strerror})", "check the path and its permissions") from None
    if not size:
        raise ReportError(path, "the file is empty", ADVICE_EXPORT)
    if not header.startswith(MAGIC):
        raise ReportError(path, "this is not an SQLite file", "give a report (.sqlite, .nsys-rep) or an export folder")
    # Offsets 16 and 28 of the header: page size and number of pages (sqlite.org/fileformat2.html).
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    if size < pages * (65536 if page == 1 else page):
        raise ReportError(path, "the file is truncated", "copy it again, or " + ADVICE_EXPORT)


class SqliteTables:
    """One SQLite export. Opened read-only; nothing is written beside it."""

    def __init__(self, path: Path) -> None:
        check_file(path)
        self.path = path
        # ADBC's own interface, not its DB-API: that one imports pandas, half of the start-up time.
        self._database = adbc_driver_sqlite.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1")
        # A connection a thread: tables are read ahead while others are worked on.
        self._own = threading.local()
        self._connections: list[AdbcConnection] = []
        try:
            self._schema = self._inspect()
        except ReportError:
            self.close()
            raise

    def _inspect(self) -> dict[str, list[str]]:
        """Columns by table, under the names that SQLite goes by: sqlite_master may have others if damaged."""
        listed = self._query(
            "SELECT CAST(t.name AS BLOB) AS 'table', CAST(c.name AS BLOB) AS 'column' "
            "FROM pragma_table_list AS t, pragma_table_info(t.name) AS c "
            "WHERE t.schema = 'main' AND t.type = 'table' AND t.name <> 'sqlite_schema' ORDER BY t.name, c.cid"
        )
        if listed.is_empty():
            return {}
        names = pl.DataFrame([_decoded(column) for column in listed])
        return dict(names.group_by("table", maintain_order=True).agg("column").rows())

    def _error(self, error: Exception) -> ReportError:
        cause = str(error).splitlines()[0] if str(error) else type(error).__name__
        return ReportError(self.path, f"SQLite cannot read it ({cause})", ADVICE_EXPORT)

    def names(self) -> Sequence[str]:
        """See Tables."""
        return list(self._schema)

    def columns(self, name: str) -> Sequence[str]:
        """See Tables."""
        return self._schema[name]

    def count(self, name: str) -> int:
        """See Tables."""
        return int(self._query(f"SELECT count(*) AS n FROM {_quoted(name)}")["n"][0])

    def at_most(self, name: str) -> int:
        """See Tables."""
        low, high = self._rowids(name)
        return high - low + 1

    def bounds(self, name: str, column: str) -> tuple[int | None, int | None]:
        """See Tables."""
        value = _integer(column)
        plausible = f"{value} BETWEEN {-TIME_LIMIT} AND {TIME_LIMIT}"
        query = f"SELECT min({value}) AS low, max({value}) AS high FROM {_quoted(name)} WHERE {plausible}"
        return self._query(query).row(0)

    def read(self, name: str, columns: dict[str, tuple[str, Column]]) -> pl.DataFrame:
        """See Tables. Every column is cast in SQL: ADBC infers a column's type from the first rows it sees.

        Without rows it takes every column for integers.
        """
        return self._select(name, columns, "")

    def pieces(
        self, name: str, columns: dict[str, tuple[str, Column]], equal: Mapping[str, Sequence[int]], rows: int
    ) -> Sequence[ReadPiece]:
        """See Tables. A piece is a range of rowids."""
        chosen = [f"{_quoted(c)} IN ({', '.join(str(int(v)) for v in values)})" for c, values in equal.items()]
        low, high = self._rowids(name)
        ranges = (f"rowid BETWEEN {first} AND {first + rows - 1}" for first in range(low, high + 1, rows))
        return [partial(self._select, name, columns, " WHERE " + " AND ".join([r, *chosen])) for r in ranges]

    def some(self, name: str, column: str, count: int) -> pl.Series:
        """See Tables."""
        low, high = self._rowids(name)
        rows = ", ".join(str(n) for n in range(low, high + 1, max((high - low + 1) // count, 1)))
        found = self._query(f"SELECT {_integer(column)} AS value FROM {_quoted(name)} WHERE rowid IN ({rows})")
        return found["value"].cast(pl.Int64)

    def _rowids(self, name: str) -> tuple[int, int]:
        """First and last rowid; (0, -1) without rows."""
        # Two queries: asked for both at once, SQLite goes through the whole table.
        low, high = (f"(SELECT {end}(rowid) FROM {_quoted(name)})" for end in ("min", "max"))
        first, last = self._query(f"SELECT {low} AS low, {high} AS high").row(0)
        return (0, -1) if first is None else (first, last)

    def _select(self, name: str, columns: dict[str, tuple[str, Column]], where: str) -> pl.DataFrame:
        frame = self._as_kept(name, columns, where)
        if frame is None:
            frame = self._query(_selection(name, columns, _integer, where))
        schema = {n: DTYPES[c.kind] for n, (_, c) in columns.items()}
        if frame.is_empty():
            return pl.DataFrame(schema=schema)
        if frame.schema == schema and all(c.kind == "int" for _, c in columns.values()):
            return frame
        texts = [_decoded(frame[n]) for n, (_, c) in columns.items() if c.kind == "text"]
        return frame.with_columns(texts).select(
            (pl.col(n) if c.kind == "int" else pl.when(pl.col(n) != _EMPTY[c.kind]).then(pl.col(n))).cast(
                DTYPES[c.kind]
            )
            for n, (_, c) in columns.items()
        )

    def _as_kept(self, name: str, columns: dict[str, tuple[str, Column]], where: str) -> pl.DataFrame | None:
        """Rows whose integers are read as they are kept, a third quicker; None where one is kept as something else.

        ADBC takes a column's type from its first rows, and refuses what is of another type further on.
        """
        try:
            frame = self._query(_selection(name, columns, _quoted, where))
        except ReportError:
            return None
        whole = all(frame.schema[n] == pl.Int64 for n, (_, c) in columns.items() if c.kind == "int")
        return frame if whole else None

    def _connection(self) -> AdbcConnection:
        if not hasattr(self._own, "connection"):
            self._own.connection = AdbcConnection(self._database)
            self._connections.append(self._own.connection)
        connection: AdbcConnection = self._own.connection
        return connection

    def _query(self, sql: str) -> pl.DataFrame:
        try:
            with AdbcStatement(self._connection()) as statement:
                statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
                statement.set_sql_query(sql)
                stream, _ = statement.execute_query()
                return pl.DataFrame(stream)
        except (Exception, pl.exceptions.PanicException) as error:
            raise self._error(error) from None

    def close(self) -> None:
        """See Tables."""
        # What an interrupt left open cannot be closed, and must not hide the interrupt.
        with suppress(RuntimeError):
            for connection in self._connections:
                connection.close()
            self._database.close()
        self._connections.clear()


def _decoded(texts: pl.Series) -> pl.Series:
    """Texts from their bytes; what is no UTF-8 in them is replaced by U+FFFD."""
    try:
        return texts.cast(pl.String)
    except pl.exceptions.ComputeError:
        distinct = texts.drop_nulls().unique()
        readable = [bytes(text).decode(errors="replace") for text in distinct]
        decoded = pl.DataFrame({"raw": distinct, texts.name: pl.Series(readable, dtype=pl.String)})
        return texts.to_frame("raw").join(decoded, on="raw", how="left", maintain_order="left")[texts.name]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _selection(name: str, columns: dict[str, tuple[str, Column]], integer: Callable[[str], str], where: str) -> str:
    """The query of columns; `integer` makes the expression of one that holds integers."""
    expressions = (f"{_expression(source, c, integer)} AS {_quoted(n)}" for n, (source, c) in columns.items())
    return f"SELECT {', '.join(expressions)} FROM {_quoted(name)}{where}"


def _expression(source: str, column: Column, integer: Callable[[str], str]) -> str:
    name = _quoted(source)
    if column.kind == "text":
        # A column that begins with NULLs would be inferred as integers. As bytes, since Polars takes a text on trust.
        return f"coalesce(CAST(CAST({name} AS TEXT) AS BLOB), x'')"
    if column.kind == "blob":
        return f"coalesce(CAST({name} AS BLOB), x'')"
    if column.kind == "real":
        # As text for the same reason; 17 digits give every double back.
        return f"CASE WHEN {name} IS NULL THEN '' ELSE printf('%!.17g', {name}) END"
    return integer(source)


def _integer(column: str) -> str:
    """A column's integers. A text that is no number is NULL, and no 0 as SQLite would cast it."""
    name = _quoted(column)
    whole = f"CAST({name} AS INTEGER)"
    exact = f"typeof({name}) = 'real' AND {name} = {whole} OR CAST({name} AS TEXT) = CAST({whole} AS TEXT)"
    return f"CASE WHEN typeof({name}) = 'integer' THEN {name} WHEN {exact} THEN {whole} END"

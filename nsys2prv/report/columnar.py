"""Parquet and Arrow exports: folders with one file a table (`nsys export -t parquetdir` and `-t arrowdir`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import starmap
from pathlib import Path
from threading import Lock

import polars as pl

from nsys2prv.errors import ReportError
from nsys2prv.report.declaration import TIME_LIMIT, Column, HeldColumns
from nsys2prv.report.schema import EXPORT, STRINGS
from nsys2prv.report.tables import DTYPES, ReadPiece, ReadRows

ADVICE_PARQUET = "export the report again with `nsys export --type parquetdir`"
# Polars cannot hold texts that are not UTF-8, which programs may write; from SQLite they are read.
ADVICE_TEXT = "export the report again with `nsys export --type sqlite`, whose texts need not be UTF-8"
SUFFIXES = (".parquet", ".arrow")
# First bytes of an Arrow file. `nsys export` writes the stream format under `.arrow`.
ARROW_FILE = b"ARROW1"
_INTEGER = Column()
_EMPTY: dict[str, str | bytes] = {"text": "", "blob": b""}


def is_columnar(folder: Path) -> bool:
    """Return True if a folder is one export: it holds the strings or the metadata of an export as a columnar file."""
    return any((folder / f"{name}{s}").is_file() for name in (STRINGS.name, EXPORT.name) for s in SUFFIXES)


class ColumnarTables:
    """One parquetdir or arrowdir export. Ids are unsigned here and signed in SQLite: all become Int64."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = {f.stem: f for f in sorted(path.iterdir()) if f.suffix in SUFFIXES}
        self._schemas: dict[str, pl.Schema] = {}
        self._counts: dict[str, int] = {}

    def _scan(self, name: str, columns: Collection[str]) -> pl.LazyFrame:
        """Return a query of these columns of a table."""
        with self._reading(name) as file:
            if self._is_stream(name):
                # A stream is read here, other files by queries. Polars cannot read a stream without any column.
                wanted = sorted(columns) or self._types(name).names()[:1]
                return pl.read_ipc_stream(file, columns=wanted or None).lazy()
            return _scanned(file)

    def _is_stream(self, name: str) -> bool:
        """Return True for a table in the stream format of Arrow, which cannot be queried in place."""
        if self._files[name].suffix == ".parquet":
            return False
        with self._files[name].open("rb") as opened:
            return opened.read(len(ARROW_FILE)) != ARROW_FILE

    @contextmanager
    def _reading(self, name: str) -> Iterator[Path]:
        """Yield the file of a table to read. Raises ReportError for whatever Polars raises meanwhile."""
        try:
            yield self._files[name]
        except ReportError:
            raise
        except (Exception, pl.exceptions.PanicException) as error:
            cause = str(error).splitlines()[0] if str(error) else type(error).__name__
            advice = ADVICE_TEXT if re.search("(?i)utf-?8", cause) else ADVICE_PARQUET
            raise ReportError(self._files[name], f"this table cannot be read ({cause})", advice) from None

    def names(self) -> Sequence[str]:
        """See Tables."""
        return list(self._files)

    def columns(self, name: str) -> Sequence[str]:
        """See Tables."""
        return self._types(name).names()

    def views(self) -> Mapping[str, Sequence[str]]:
        """See Tables."""
        return {}

    def count(self, name: str) -> int:
        """See Tables."""
        if name not in self._counts:
            self._counts[name] = int(self._collect(name, self._scan(name, ()).select(pl.len()))["len"][0])
        return self._counts[name]

    def at_most(self, name: str) -> int:
        """See Tables."""
        return self.count(name)

    def bounds(self, name: str, column: str) -> tuple[int | None, int | None]:
        """See Tables."""
        value = pl.col("value").filter(pl.col("value").is_between(-TIME_LIMIT, TIME_LIMIT))
        times = self._scan(name, [column]).select(self._cast(name, column, _INTEGER).alias("value"))
        return self._collect(name, times.select(value.min().alias("low"), value.max().alias("high"))).row(0)

    def read(self, name: str, columns: HeldColumns) -> pl.DataFrame:
        """See Tables."""
        return self._collect(name, self._query(name, columns))

    def read_together(self, wanted: Mapping[str, HeldColumns]) -> dict[str, pl.DataFrame]:
        """See Tables: a query of all takes a third of the time of as many queries."""
        try:
            return dict(zip(wanted, pl.collect_all(starmap(self._query, wanted.items())), strict=True))
        except (Exception, pl.exceptions.PanicException):
            # Reading them one by one names the table with the error.
            return {}

    def _query(self, name: str, columns: HeldColumns) -> pl.LazyFrame:
        return self._scan(name, _names(columns)).select(self._selected(name, columns))

    def pieces(
        self, name: str, columns: HeldColumns, equal: Mapping[str, Sequence[int]], rows: int
    ) -> Sequence[ReadPiece]:
        """See Tables."""
        declared = dict(columns.values())
        chosen = pl.all_horizontal(
            pl.lit(True), *(self._cast(name, c, declared[c]).is_in(list(values)) for c, values in equal.items())
        )
        selected = self._selected(name, columns)
        firsts = range(0, self.count(name), rows)
        table = _Shared(partial(self._scan, name, _names(columns) | equal.keys()), len(firsts))

        def read(first: int) -> pl.DataFrame:
            with table.open() as query:
                return self._collect(name, query.slice(first, rows).filter(chosen).select(selected))

        return [partial(read, first) for first in firsts]

    def rows_reader(self, name: str, columns: HeldColumns) -> ReadRows | None:
        """See Tables."""
        if self._is_stream(name):
            return None
        table, selected = self._scan(name, _names(columns)), self._selected(name, columns)
        return lambda first, count: self._collect(name, table.slice(first, count).select(selected))

    def some(self, name: str, column: str, count: int) -> pl.Series:
        """See Tables."""
        value = self._cast(name, column, _INTEGER).gather_every(max(self.count(name) // count, 1))
        return self._collect(name, self._scan(name, [column]).select(value.alias("value")))["value"]

    def _collect(self, name: str, query: pl.LazyFrame) -> pl.DataFrame:
        with self._reading(name):
            return query.collect()

    def _selected(self, name: str, columns: HeldColumns) -> list[pl.Expr]:
        return [self._cast(name, source, c).alias(n) for n, (source, c) in columns.items()]

    def _cast(self, name: str, source: str, column: Column) -> pl.Expr:
        """Return a column as declared: null where it holds something else."""
        kind = self._types(name)[source]
        if kind.is_nested() or kind.is_temporal():
            return pl.lit(None, DTYPES[column.kind])
        wraps = column.kind == "int" and kind.is_integer()
        value = pl.col(source).cast(DTYPES[column.kind], strict=False, wrap_numerical=wraps)
        # As from SQLite: an empty text is null, and so is a fraction among integers.
        if column.kind in _EMPTY:
            return pl.when(value != _EMPTY[column.kind]).then(value)
        if column.kind == "int" and kind.is_float():
            return pl.when(pl.col(source) == pl.col(source).floor()).then(value)
        return value

    def _types(self, name: str) -> pl.Schema:
        """Return the columns of a table with their types. Raises ReportError."""
        if name not in self._schemas:
            with self._reading(name) as file:
                stream = self._is_stream(name)
                self._schemas[name] = (
                    pl.read_ipc_stream(file, n_rows=0).schema if stream else _scanned(file).collect_schema()
                )
        return self._schemas[name]

    def close(self) -> None:
        """See Tables."""


class _Shared:
    """A query of a table that is read in pieces, on any threads.

    A stream is in memory while it is open, that is from the first piece to the last one.
    """

    def __init__(self, scan: Callable[[], pl.LazyFrame], pieces: int) -> None:
        self._scan, self._left = scan, pieces
        self._lock = Lock()
        self._query: pl.LazyFrame | None = None

    @contextmanager
    def open(self) -> Iterator[pl.LazyFrame]:
        """Yield the query, for one piece."""
        with self._lock:
            self._query = query = self._query if self._query is not None else self._scan()
        try:
            yield query
        finally:
            with self._lock:
                self._left -= 1
                if self._left <= 0:
                    self._query = None


def _scanned(file: Path) -> pl.LazyFrame:
    """Return a query of a file that is no stream."""
    return pl.scan_parquet(file) if file.suffix == ".parquet" else pl.scan_ipc(file)


def _names(columns: HeldColumns) -> set[str]:
    """Return the names of columns in the export."""
    return {source for source, _ in columns.values()}

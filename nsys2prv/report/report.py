"""One report, open for reading: its tables by declaration, its identity, its diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.errors import ReportError
from nsys2prv.report import schema
from nsys2prv.report.columnar import ColumnarTables
from nsys2prv.report.declaration import (
    DECLARED_TABLES,
    Column,
    HeldColumns,
    Table,
    held_columns,
    names_in_export,
)
from nsys2prv.report.diagnostics import diagnostic_texts
from nsys2prv.report.discover import without_ending
from nsys2prv.report.identity import IDENTITY_TABLES, Identity, read_identity
from nsys2prv.report.nsys import UNFINISHED
from nsys2prv.report.nvprof.database import is_nvprof, open_nvprof
from nsys2prv.report.sqlite import SqliteTables
from nsys2prv.report.tables import DTYPES, ReadPiece, ReadRows, Tables


class Report:
    """One report. Use it as a context manager, or call `close`."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.path = tables.path
        # No cached_property: in Python 3.11 it locks all reports while one of them asks queries, and a Polars thread
        # that was handed another report would wait for it for ever.
        self._identity: Identity | None = None
        self._strings: pl.DataFrame | None = None
        self._extended: pl.Series | None = None
        self._names = names_in_export(DECLARED_TABLES.values(), tables.names())
        if not {schema.STRINGS.name, schema.EXPORT.name, *(t.name for t in DECLARED_TABLES.values() if t.time)} & set(
            self._names
        ):
            cause = "this is not an Nsight Systems export (none of its tables is known)"
            raise ReportError(self.path, cause, "give a report made by `nsys export`")

    @property
    def name(self) -> str:
        """Return the report's file name without its ending."""
        return without_ending(self.path).name

    @property
    def identity(self) -> Identity:
        """Return the host, processes and clock of the report."""
        if self._identity is None:
            self._identity = self._read_identity()
        return self._identity

    def _read_identity(self) -> Identity:
        read = self.tables_together({t: tuple(t.columns) for t in IDENTITY_TABLES}) or {}
        return read_identity(lambda t: read[t.name] if t.name in read else self.table(t), lambda: self.strings)

    def holds(self, table: Table) -> bool:
        """Return True if the export holds the table, whatever its columns."""
        return table.name in self._names

    def has(self, table: Table) -> bool:
        """Return True if the export holds the table with all needed columns."""
        return table.name in self._names and not self.missing(table)

    def missing(self, table: Table) -> list[str]:
        """Return the needed columns that the export's table lacks."""
        return self._not_held(table, {n: c for n, c in table.columns.items() if c.required})

    def lacking(self, table: Table, columns: Iterable[str]) -> list[str]:
        """Return those of some columns that all known versions have, and the export's table lacks."""
        return self._not_held(table, {n: table.columns[n] for n in columns if table.columns[n].expected})

    def _not_held(self, table: Table, wanted: Mapping[str, Column]) -> list[str]:
        """Return those of some columns that the export's table lacks."""
        held = self._held_columns(table, wanted)
        return [n for n in wanted if n not in held]

    def has_column(self, table: Table, column: str) -> bool:
        """Return True if the export holds the table with a declared column."""
        return table.name in self._names and bool(self._held_columns(table, {column: table.columns[column]}))

    def rows(self, table: Table) -> int:
        """Return the number of rows of the table; 0 when the export lacks it."""
        return self.tables.count(self._names[table.name]) if table.name in self._names else 0

    def rows_at_most(self, table: Table) -> int:
        """Return an upper bound of the number of rows, uncounted: too high after deletions; 0 without the table."""
        return self.tables.at_most(self._names[table.name]) if table.name in self._names else 0

    def bounds(self, table: Table) -> tuple[int, int] | None:
        """Return first and last time by the table's time column, in the export's ns; None without events."""
        if table.time is None or not self.has(table):
            return None
        times = [c for c in (table.time, table.other_time) if c is not None]
        for column, _ in self._held_columns(table, {c: table.columns[c] for c in times}).values():
            low, high = self.tables.bounds(self._names[table.name], column)
            if low is not None and high is not None:
                return low, high
        return None

    def last(self, table: Table) -> int | None:
        """Return last time of the table's events, of their begins and ends, in the export's ns; None without events."""
        if not self.has(table):
            return None
        times = {n: c for n, c in table.columns.items() if n in (table.time, "end")}
        columns = [column for column, _ in self._held_columns(table, times).values()]
        highest = [self.tables.bounds(self._names[table.name], column)[1] for column in columns]
        return max((time for time in highest if time is not None), default=None)

    def table(self, table: Table, columns: Iterable[str] | None = None) -> pl.DataFrame:
        """Return columns of a table (all declared ones by default), each of its dtype (see DTYPES).

        Columns that the export lacks have their declared default. Without the table the frame is empty. Raises
        ReportError.
        """
        wanted = {n: table.columns[n] for n in (columns or table.columns)}
        if not self.has(table):
            return pl.DataFrame(schema={n: DTYPES[c.kind] for n, c in wanted.items()})
        held = self._held_columns(table, wanted)
        return _completed(self.tables.read(self._names[table.name], held), wanted, held)

    def tables_together(self, columns: Mapping[Table, Sequence[str]]) -> dict[str, pl.DataFrame] | None:
        """Return columns of several tables by name, as `table` does, of the tables that can be read.

        None if it is better to work on one table while the next is read.
        """
        wanted = {t: {n: t.columns[n] for n in names} for t, names in columns.items() if self.has(t)}
        held = {t: self._held_columns(t, of) for t, of in wanted.items()}
        found = self.tables.read_together({self._names[t.name]: held[t] for t in wanted})
        if found is None:
            return None
        read = {t: found[name] for t in wanted if (name := self._names[t.name]) in found}
        return {t.name: _completed(frame, wanted[t], held[t]) for t, frame in read.items()}

    def pieces(
        self, table: Table, columns: Iterable[str], rows: int, equal: Mapping[str, Sequence[int]] | None = None
    ) -> list[ReadPiece]:
        """Return readers of pieces of at most `rows` rows each, for a table that may not fit in memory.

        Calling a reader reads its piece, on any thread. `equal`: only rows whose column (one of `columns`, which the
        export must have) has one of these values.
        """
        wanted = {n: table.columns[n] for n in columns}
        if not self.has(table):
            return []
        held = self._held_columns(table, wanted)
        found = self.tables.pieces(self._names[table.name], held, equal or {}, rows)
        return [partial(_completed_piece, read, wanted, held) for read in found]

    def rows_reader(self, table: Table, columns: Iterable[str]) -> ReadRows | None:
        """Return a reader of columns of some rows of a table that the export has, for any thread.

        None if the rows before them would have to be read, too.
        """
        wanted = {n: table.columns[n] for n in columns}
        held = self._held_columns(table, wanted)
        read = self.tables.rows_reader(self._names[table.name], held)
        return read and (lambda first, count: _completed(read(first, count), wanted, held))

    def _held_columns(self, table: Table, wanted: Mapping[str, Column]) -> HeldColumns:
        """Return the columns that the export has: name -> (name in the export, declaration)."""
        return held_columns(self.tables.columns(self._names[table.name]), wanted)

    def some_times(self, table: Table, count: int) -> npt.NDArray[np.int64]:
        """Return times of about `count` rows of an event table, evenly spaced over its rows."""
        if table.time is None or not self.has(table):
            return np.zeros(0, dtype=np.int64)
        (column, _) = self._held_columns(table, {table.time: table.columns[table.time]})[table.time]
        found = self.tables.some(self._names[table.name], column, count).drop_nulls()
        times: npt.NDArray[np.int64] = found.to_numpy()
        return times

    @property
    def strings(self) -> pl.DataFrame:
        """Return StringIds as (id, text), in order of id."""
        if self._strings is None:
            strings = self.table(schema.STRINGS).select("id", text="value").drop_nulls("id")
            self._strings = strings.unique("id", keep="first").sort("id")
        return self._strings

    def texts(self, ids: pl.Series) -> pl.Series:
        """Return the texts of StringIds by id; null for an id without a string."""
        at, held = self._strings_at(ids)
        return self._texts_and_none.gather(np.where(held, at, self.strings.height)).alias("text")

    def lacks_strings(self, ids: pl.Series) -> pl.Series:
        """Return True for ids that StringIds lacks. A string may be empty, and a null is no id."""
        _, held = self._strings_at(ids)
        return pl.Series(~held) & ids.is_not_null()

    def _strings_at(self, ids: pl.Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the place of each id in `strings`, and True where it is there."""
        known, lacking = self.strings["id"].to_numpy(), ids.null_count() > 0
        wanted = (ids.fill_null(0) if lacking else ids).to_numpy()
        at = np.searchsorted(known, wanted)
        held = (at < len(known)) & (np.append(known, 0)[at] == wanted)
        return at, held & ids.is_not_null().to_numpy() if lacking else held

    @property
    def _texts_and_none(self) -> pl.Series:
        """Return the texts in order of their ids, and behind them a null for ids without one."""
        if self._extended is None:
            self._extended = self.strings["text"].extend_constant(None, 1)
        return self._extended

    def event_tables(self) -> list[Table]:
        """Return known event tables that the export holds."""
        return [t for t in DECLARED_TABLES.values() if t.time and t.name in self._names]

    def unknown_tables(self) -> list[str]:
        """Return the tables of the export that no declaration covers."""
        return sorted(set(self.tables.names()) - set(self._names.values()))

    def diagnostics(self) -> list[str]:
        """Return warnings and errors that the report itself holds (DIAGNOSTIC_EVENT), each once and on one line."""
        return diagnostic_texts(self.table(schema.DIAGNOSTICS), self.identity.processes)

    def close(self) -> None:
        """Release the report's files."""
        self.tables.close()

    def __enter__(self) -> Report:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _completed_piece(read: ReadPiece, wanted: Mapping[str, Column], held: HeldColumns) -> pl.DataFrame:
    return _completed(read(), wanted, held)


def _completed(frame: pl.DataFrame, wanted: Mapping[str, Column], held: HeldColumns) -> pl.DataFrame:
    """Complete the columns that were read with the defaults of the others."""
    defaults = [pl.lit(c.default, dtype=DTYPES[c.kind]).alias(n) for n, c in wanted.items() if n not in held]
    filled = [pl.col(n).fill_null(c.default) for n, c in wanted.items() if n in held and c.default is not None]
    completed = frame.with_columns(defaults + filled) if defaults or filled else frame
    return completed if completed.columns == list(wanted) else completed.select(*wanted)


def open_report(path: Path | str) -> Report:
    """Open one export: a `.sqlite` file, a parquetdir/arrowdir folder, or a file of nvprof. Raises ReportError."""
    path = Path(path)
    readable = str(path).encode(errors="surrogateescape").decode(errors="backslashreplace")
    if readable != str(path):
        raise ReportError(readable, "its name is not UTF-8", "rename it, or the folder that it is in")
    try:
        missing = not path.exists()
    except OSError as error:
        raise ReportError(path, f"cannot be read ({error.strerror})", "check its name and permissions") from None
    if missing:
        raise ReportError(path, "there is no such file or folder", "check the path")
    if path.suffix == UNFINISHED:
        advice = "QdstrmImporter, beside the nsys that recorded it, makes one if it is whole; otherwise record again"
        raise ReportError(path, "nsys was stopped before it made a report of this recording", advice)
    return Report(ColumnarTables(path) if path.is_dir() else _open_file(path))


def _open_file(path: Path) -> Tables:
    """Open a database: of nvprof if its tables are."""
    tables = SqliteTables(path)
    if not is_nvprof(tables.names()):
        return tables
    tables.close()
    return open_nvprof(path)

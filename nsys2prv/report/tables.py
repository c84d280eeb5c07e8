"""The interface that every format of an export offers: tables by name, read as columns of fixed types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import polars as pl

from nsys2prv.report.declaration import HeldColumns, Table

DTYPES: dict[str, pl.DataType] = {"int": pl.Int64(), "text": pl.String(), "real": pl.Float64(), "blob": pl.Binary()}

ReadTable = Callable[[Table], pl.DataFrame]
ReadPiece = Callable[[], pl.DataFrame]
# A range of rows of a table: number of rows before it, number of rows in it.
ReadRows = Callable[[int, int], pl.DataFrame]


class Tables(Protocol):
    """One export, open for reading. `name` is the table's name in the export."""

    path: Path

    def names(self) -> Sequence[str]:
        """Return names of the tables, in any order."""

    def columns(self, name: str) -> Sequence[str]:
        """Return columns of a table."""

    def views(self) -> Mapping[str, Sequence[str]]:
        """Return the columns of each view. Views are not read."""

    def count(self, name: str) -> int:
        """Return the number of rows of a table."""

    def at_most(self, name: str) -> int:
        """Return an upper bound of the number of rows of a table, without counting them."""

    def read(self, name: str, columns: HeldColumns) -> pl.DataFrame:
        """Read columns: result column -> (column in the export, its declaration), each of its dtype in DTYPES."""

    def read_together(self, wanted: Mapping[str, HeldColumns]) -> dict[str, pl.DataFrame] | None:
        """Read several tables at once, as `read` does: those that can be read, by name.

        None if reading a table takes so long that another should be worked on meanwhile.
        """

    def pieces(
        self, name: str, columns: HeldColumns, equal: Mapping[str, Sequence[int]], rows: int
    ) -> Sequence[ReadPiece]:
        """Read as `read` does, in pieces of at most `rows` rows, only rows whose columns have one of the given values.

        Calling a piece reads it, on any thread.
        """

    def rows_reader(self, name: str, columns: HeldColumns) -> ReadRows | None:
        """Return a reader of some rows, for any thread; None if the rows before them would have to be read, too."""

    def bounds(self, name: str, column: str) -> tuple[int | None, int | None]:
        """Return smallest and largest value of an integer column; (None, None) without rows."""

    def some(self, name: str, column: str, count: int) -> pl.Series:
        """Return an integer column's values (Int64) in about `count` rows, evenly spaced."""

    def close(self) -> None:
        """Release files."""

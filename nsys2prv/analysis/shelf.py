"""A frame that is read seldom, in a file: the NVTX ranges of a long run take more memory than its graph."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile

import polars as pl

from nsys2prv.errors import not_written


class Shelf:
    """A frame in a file. The file has no name: it goes with the shelf, and stays if its folder goes first.

    Texts are numbers there, as many rows have few of them: a text of its own for each row would be read each time.
    """

    def __init__(self, frame: pl.DataFrame, folder: Path) -> None:
        """Write a frame to a file in a folder. Raises OutputError when the disk takes no more."""
        self.height, self.columns = frame.height, frame.columns
        self._texts: dict[str, pl.Series] = {}
        try:
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115
            pl.DataFrame([self._numbered(column) for column in frame.iter_columns()]).write_ipc(
                self._file, compression="uncompressed"
            )
        except OSError as error:
            raise not_written(folder, error) from None

    def _numbered(self, column: pl.Series) -> pl.Series:
        if column.dtype != pl.String:
            return column
        # Categories of their own have numbers from 0 on, and are freed with the column.
        numbered = column.cast(pl.Categorical(pl.Categories.random()))
        each = numbered.drop_nulls().unique()
        self._texts[column.name] = each.cast(pl.String).gather(each.to_physical().arg_sort())
        return numbered.to_physical()

    def read(self, *columns: str) -> pl.DataFrame:
        """Read some columns."""
        self._file.seek(0)
        found = pl.read_ipc(self._file, columns=list(columns))
        # Column by column, each freed when it is copied: all at once take the memory twice.
        return pl.DataFrame({name: self._read(found.drop_in_place(name)) for name in columns})

    def _read(self, column: pl.Series) -> pl.Series:
        texts = self._texts.get(column.name)
        return column.rechunk() if texts is None else texts.gather(column.rechunk())

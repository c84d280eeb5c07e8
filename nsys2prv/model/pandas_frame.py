"""Polars frames as pandas frames, without PyArrow, which Polars' own `to_pandas` needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """Convert a Polars frame, column by column, to a pandas frame with the same columns and rows.

    Integers and booleans keep their type; with nulls they become pandas' nullable types of the same width, with `NA`.
    Floats become NumPy floats, and their nulls NaN. Texts and lists become Python objects, and their nulls None or NaN.
    """
    # pandas takes 0.3 s to import, and nothing else needs it.
    import pandas as pd

    return pd.DataFrame({column.name: _values(column) for column in frame}, index=pd.RangeIndex(frame.height))


def _values(column: pl.Series) -> Any:
    """Return a column as an array of the type that pandas shall have, texts and lists as a Python list."""
    import pandas as pd

    exact = column.dtype.is_integer() or column.dtype == pl.Boolean
    if exact and column.null_count():
        # pandas' names of nullable types are Polars' names, but for booleans.
        nullable: Any = "boolean" if column.dtype == pl.Boolean else str(column.dtype)
        return pd.array(column.to_list(), dtype=nullable)
    if exact or column.dtype.is_float():
        return column.to_numpy()
    return column.to_list()

"""Frames brought to their schema."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl


def to_schema(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return the columns of a schema, in its order and with its types. Raises PolarsError if one is missing."""
    return frame.select(pl.col(name).cast(dtype) for name, dtype in schema.items())

"""JSON texts of a report as columns."""

from __future__ import annotations

import polars as pl


def decoded(texts: pl.Series, kind: pl.Struct) -> pl.Series:
    """Return the objects that texts hold (fields they lack are null); null where a text is not such an object."""
    # Polars reads a column as lines of JSON: an empty text or one of two lines would move all that follow.
    lines = texts.str.replace_all(r"[\r\n]", " ").str.strip_chars().replace("", None)
    try:
        return lines.str.json_decode(kind)
    except pl.exceptions.ComputeError:
        # One bad text fails the whole query: try each by itself.
        distinct = lines.unique().drop_nulls()
        found = [_decoded_one(text, kind) for text in distinct]
        return lines.replace_strict(distinct, pl.Series(found, dtype=kind), default=None, return_dtype=kind)


def _decoded_one(text: str, kind: pl.Struct) -> object:
    try:
        return pl.Series([text]).str.json_decode(kind)[0]
    except pl.exceptions.ComputeError:
        return None

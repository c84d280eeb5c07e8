"""JSON texts of a report as columns."""

from __future__ import annotations

import polars as pl


def decoded(texts: pl.Series, kind: pl.Struct) -> pl.Series:
    """Return the objects that texts hold (fields they lack are null); null where a text is not such an object."""
    # Polars reads a column as lines of JSON: an empty text or one of two lines would move all that follow.
    lines = texts.str.replace_all(r"[\r\n]", " ").str.strip_chars().replace("", None)
    if (whole := _whole(lines, kind)) is not None:
        return whole
    distinct = lines.unique().drop_nulls()
    return lines.replace_strict(distinct, _by_halves(distinct, kind), default=None, return_dtype=kind)


def _by_halves(texts: pl.Series, kind: pl.Struct) -> pl.Series:
    """Return the objects of texts, null for bad ones. A bad text fails a whole query: halving leaves it alone."""
    if (whole := _whole(texts, kind)) is not None:
        return whole
    half = len(texts) // 2
    if not half:
        return pl.Series([None], dtype=kind)
    return pl.concat([_by_halves(texts[:half], kind), _by_halves(texts[half:], kind)])


def _whole(texts: pl.Series, kind: pl.Struct) -> pl.Series | None:
    """Return the objects of texts; None if one of them is bad, or holds several objects."""
    try:
        found = texts.str.json_decode(kind)
    except pl.exceptions.ComputeError:
        return None
    return found if len(found) == len(texts) else None

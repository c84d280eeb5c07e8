"""Columns of few distinct texts (TEXT): what a text holds is looked up once for each of them, not in every row."""

from __future__ import annotations

import polars as pl


def text_contains(column: str, pattern: str) -> pl.Expr:
    """Return True for rows whose text in a column contains a pattern, null for those without a text.

    The expression sees the whole column: it is for no aggregation by groups.
    """
    # In order, as the texts are found twice.
    texts = pl.col(column).unique(maintain_order=True)
    return pl.col(column).is_in(texts.filter(texts.cast(pl.String).str.contains(pattern)).implode())

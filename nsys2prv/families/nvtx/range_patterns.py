"""Patterns of range texts: ranges that differ by a number are one pattern, such as `step #`."""

from __future__ import annotations

import polars as pl

# Domains in which libraries, not the program, name ranges.
LIBRARY_DOMAINS = ("NCCL", "CCCL", "cuBLAS", "cuDNN", "MPI")
DIGITS = "[0-9]+"
# The last number of a text; one before a `#` would not be the last of its pattern.
NUMBER = f"(?s)^(.*?)({DIGITS})([^0-9#]*)$"


def pattern_of(text: pl.Expr) -> pl.Expr:
    """Return the text with `#` for its last number; a text without a number stays."""
    return text.str.replace(NUMBER, "${1}#${3}")


def number_of(text: pl.Expr) -> pl.Expr:
    """Return the last number of a text, null where it has none (see `value_of`)."""
    return value_of(text.str.extract(NUMBER, 2))


def value_of(digits: pl.Expr) -> pl.Expr:
    """Return the value of digits, null where there are none; of more than an integer holds, that of the last ones."""
    return pl.coalesce(digits.cast(pl.Int64, strict=False), digits.str.tail(18).cast(pl.Int64, strict=False))

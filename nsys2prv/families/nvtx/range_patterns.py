"""Patterns of range texts: ranges that differ only by their numbers are one operation, such as `step #`.

One rule for labels of the trace, for tables, and for finding iterations. It has three parts. PyTorch's autograd adds
sequence numbers and sizes to the name of an operation (`aten::mm, seq = 7, sizes = [[4, 4]]`): they are cut off. A
number that stands by itself, with neither a letter nor a digit beside it, becomes `#`. Other digits are part of a name
and stay (`fp32`, `Adam2d`).
"""

from __future__ import annotations

import polars as pl

# Domains in which libraries, not the program, name ranges.
LIBRARY_DOMAINS = ("NCCL", "CCCL", "cuBLAS", "cuDNN", "MPI")
DIGITS = "[0-9]+"
# Beginning of autograd's addition to the name of an operation.
ADDED = ", (?:op_id|seq|sizes) ="
# Characters that are neither letters nor digits, but `#`: those of ASCII, and punctuation, arrows and signs. Beyond
# those all count as letters: a class of all letters makes regexes many times slower.
_SIGNS = r'\x00-"$-/:-@\[-`\{-\x7f\x{2000}-\x{2bff}\x{3000}-\x{303f}'
_BESIDE = f"[#{_SIGNS}]"
_ALONE = f"(^|{_BESIDE}){DIGITS}($|{_BESIDE})"
# The last number that stands by itself; one before a `#` would not be the last of its pattern.
_LAST = f"(?s)^((?:.*{_BESIDE})?)({DIGITS})((?:[{_SIGNS}][^#]*)?)$"
# Length (bytes) of a text above which its end is searched first.
_LONG = 4096


def operation_of(text: pl.Expr) -> pl.Expr:
    """Return a text without autograd's addition to the name of an operation."""
    return text.str.replace(f"(?s){ADDED}.*$", "")


def pattern_of(text: pl.Expr) -> pl.Expr:
    """Return the operation of a text, with `#` for each number that stands by itself."""
    # Two numbers may share the character between them, which one match takes: the second pass finds the others.
    return operation_of(text).str.replace_all(_ALONE, "${1}#${2}").str.replace_all(_ALONE, "${1}#${2}")


def numbered_text(text: pl.Expr) -> pl.Expr:
    """Return the operation of a text, with `#` for the last number alone that stands by itself."""
    operation = operation_of(text)
    in_end, end, rest = _long(operation)
    shortened = operation.str.head(-_LONG) + end.str.replace(_LAST, "${1}#${3}").str.slice(1)
    return pl.coalesce(pl.when(in_end).then(shortened), rest.str.replace(_LAST, "${1}#${3}"), operation)


def digits_of(text: pl.Expr) -> pl.Expr:
    """Return the digits of the last number of a text's operation that stands by itself, null if there is none."""
    in_end, end, rest = _long(operation_of(text))
    return pl.coalesce(pl.when(in_end).then(end.str.extract(_LAST, 2)), rest.str.extract(_LAST, 2))


def _long(operation: pl.Expr) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """Return a mask of long operations with a number in their end, these ends, and all other operations.

    Searching a text of megabytes for its last number takes a tenth of a second. The letter before the end keeps the
    digits of a longer word from standing by themselves.
    """
    end = pl.when(operation.str.len_bytes() > _LONG).then("x" + operation.str.tail(_LONG))
    in_end = end.str.contains(_LAST).fill_null(False)
    return in_end, end, pl.when(~in_end).then(operation)


def number_of(text: pl.Expr) -> pl.Expr:
    """Return the last number of a text's operation that stands by itself, null if there is none (see `value_of`)."""
    return value_of(digits_of(text))


def value_of(digits: pl.Expr) -> pl.Expr:
    """Return the value of digits; null without any. If they exceed an integer, the last ones count."""
    return pl.coalesce(digits.cast(pl.Int64, strict=False), digits.str.tail(18).cast(pl.Int64, strict=False))

"""Columns of the metric fit: classes of a device's work, and in each class kernels of one name and similar length."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.frames import covered, covered_by, within
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans, difference

IDLE = "idle"
# Highest number of columns for kernels of one name and length, to bound memory. The rest of each class shares one.
MOST = 64


class Column(NamedTuple):
    """A class (or family), or a part of it: kernels of one finer class, one name and one length.

    `name` is None for the whole, "" for kernels of a finer class that have no column of their own; `length` is the
    power of 2 (ns) below their duration. One name runs in several sizes, and a larger one takes longer.
    """

    owner: str
    finer: str | None = None
    name: str | None = None
    length: int = 0


def column_spans(work: pl.DataFrame, by: str, window: Spans) -> dict[Column, Spans]:
    """Return the spans in which each class, and each of its parts, runs on one device, and the idle spans (IDLE).

    `by`: column of WORK that names the class.
    """
    named = work.select("start", "end", owner=pl.col(by).cast(pl.String))
    classes = _covered(named, ["owner"], window)
    idle = {Column(IDLE): difference(window, covered(work, window))}
    return {**classes, **idle, **_parts(work, by, window)}


def _covered(work: pl.DataFrame, key: list[str], window: Spans) -> dict[Column, Spans]:
    """Return the spans that intervals (start, end, `key`) of each key cover inside the window, in order of the keys."""
    columns = work.select(key).unique().sort(key).with_row_index("column")
    numbered = work.join(columns, on=key, how="left", maintain_order="left")
    axis = axis_over(window, columns.height)
    found = axis.apart(covered_by(axis, numbered, "column", window))
    return {Column(*names): spans for names, spans in zip(columns.select(key).rows(), found, strict=True)}


def _parts(work: pl.DataFrame, by: str, window: Spans) -> dict[Column, Spans]:
    """Return the spans of the parts of each class that has more than one part."""
    length = (pl.col("end") - pl.col("start")).clip(lower_bound=1).log(2).floor().cast(pl.Int64)
    texts = {key: pl.col(c).cast(pl.String) for key, c in (("owner", by), ("finer", "class"), ("name", "name"))}
    work = work.select("start", "end", **texts, length=length)
    key = list(Column._fields)
    times = within(work, window).group_by(key).agg(pl.col("ns").sum())
    longest = times.sort(-pl.col("ns"), *key).head(MOST).select(*key, own=pl.lit(True))
    marked = work.join(longest, on=key, how="left", maintain_order="left").with_columns(
        name=pl.when("own").then("name").otherwise(pl.lit("")), length=pl.when("own").then("length").otherwise(0)
    )
    several = marked.select(key).unique().group_by("owner").len().filter(pl.col("len") > 1)["owner"]
    return _covered(marked.filter(pl.col("owner").is_in(several.implode())), key, window)

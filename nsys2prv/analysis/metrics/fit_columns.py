"""Columns of the metric fit: classes of a device's work, and in each class kernels of one name and similar length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.interval_frames import covered
from nsys2prv.intervals.grouped import NO_GROUP, axis_over
from nsys2prv.intervals.spans import Indices, Spans, Times, difference, intersection, time_in

IDLE = "idle"
# Highest number of columns for kernels of one name and length, to bound memory. The rest of each class shares one.
MOST_KERNEL_COLUMNS = 64


class FittedColumn(NamedTuple):
    """A class (or family), or a part of it: kernels of one finer class, one name and one length.

    `name` is None for the whole, "" for kernels of a finer class that have no column of their own. Kernels of one
    `length` last from 2**length ns to twice that: one name runs in several sizes, and a larger one takes longer.
    """

    owner: str
    finer: str | None = None
    name: str | None = None
    length: int = 0


def column_spans(work: pl.DataFrame, by: str, window: Spans) -> dict[FittedColumn, Spans]:
    """Return the spans in which each class, and each of its parts, runs on one device, and the idle spans (IDLE).

    `by`: column of WORK that names the class.
    """
    kinds, kind_of = _kinds(work, by)
    start, end = work["start"].to_numpy(), work["end"].to_numpy()

    def spans(columns: pl.DataFrame) -> dict[FittedColumn, Spans]:
        """Return the spans of each distinct row of columns: the column of each kind, null for none, in their order."""
        named = columns.drop_nulls().unique().sort(pl.all()).with_row_index("number")
        number = columns.join(named, on=columns.columns, how="left", maintain_order="left")["number"]
        axis = axis_over(window, named.height)
        inside = intersection(
            axis.union(number.fill_null(NO_GROUP).to_numpy()[kind_of], start, end), axis.spread(window)
        )
        return {FittedColumn(*key[1:]): own for key, own in zip(named.rows(), axis.apart(inside), strict=True)}

    ns = np.zeros(kinds.height, dtype=np.int64)
    np.add.at(ns, kind_of, time_in(window, end) - time_in(window, start))
    idle = {FittedColumn(IDLE): difference(window, covered(work, window))}
    return {**spans(kinds.select("owner")), **idle, **spans(_columns_of(kinds, ns))}


def _kinds(work: pl.DataFrame, by: str) -> tuple[pl.DataFrame, Indices]:
    """Return the kinds of kernels (the fields of FittedColumn), and the kind of each row of work."""
    length = (pl.col("end") - pl.col("start")).clip(lower_bound=1).log(2).floor().cast(pl.Int64)
    keyed = work.select(owner=by, finer="class", name="name", length=length)
    kinds = keyed.unique(maintain_order=True).with_row_index("kind")
    kind_of: Indices = keyed.join(kinds, on=keyed.columns, how="left", maintain_order="left")["kind"].to_numpy()
    # A number a text until here: there are many rows, and few kinds.
    return kinds.select(pl.col("owner", "finer", "name").cast(pl.String), "length"), kind_of


def _columns_of(kinds: pl.DataFrame, ns: Times) -> pl.DataFrame:
    """Return the fields of FittedColumn for each kind: its part of a class, null where the class has no other part.

    `ns`: time of each kind inside the window. The longest have a column of their own.
    """
    order = kinds.with_columns(ns=pl.Series(ns)).with_row_index("kind").filter(pl.col("ns") > 0)
    longest = order.sort(-pl.col("ns"), *kinds.columns).head(MOST_KERNEL_COLUMNS)["kind"]
    own = pl.int_range(pl.len()).is_in(longest.implode())
    columns = kinds.with_columns(
        name=pl.when(own).then("name").otherwise(pl.lit("")), length=pl.when(own).then("length").otherwise(0)
    )
    several = columns.unique().group_by("owner").len().filter(pl.col("len") > 1)["owner"]
    part = pl.col("owner").is_in(several.implode())
    return columns.select(pl.when(part).then(pl.col(c)) for c in columns.columns)

"""Lines of points that say themselves what they are of, as tests write them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from nsys2prv.paraver.lines import event_lines


def lines_of(points: pl.DataFrame, pairs: Mapping[str, int], common: Collection[str] = ()) -> pl.DataFrame:
    """Lines of points with type, value and columns of further values, of which `common` are in combinations."""
    numbered = points.with_row_index("combination")
    said = numbered.select("type", "value", *common)
    return event_lines(numbered.drop(said.columns), said, pairs)

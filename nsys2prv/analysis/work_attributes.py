"""Attributes of device work from the columns of its event types: grids of kernels, kinds of memory of copies."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.frames import TEXT
from nsys2prv.model import event_types as types


def kernel_shape(frame: pl.DataFrame) -> pl.Expr:
    """Return a number of the grid: y below 2**16 and z likewise as CUDA has it, x below 2**31."""
    x, y, z = (grid.key for grid in types.GRID)
    known = {x, y, z} <= set(frame.columns)
    return pl.col(x) * 2**32 + pl.col(y) * 2**16 + pl.col(z) if known else pl.lit(None, pl.Int64)


def memory_kinds(frame: pl.DataFrame) -> pl.Expr:
    """Return the kinds of memory of copies, such as `Pageable to Device`, and of the targets of memsets."""
    source, target = types.MEMORY_SOURCE, types.MEMORY_DESTINATION
    if source.key not in frame.columns:
        return pl.lit(None, TEXT)
    of, to = (
        pl.col(t.key).replace_strict(dict(t.values), default=None, return_dtype=pl.String) for t in (source, target)
    )
    return pl.when(of.is_null()).then(to).otherwise(pl.format("{} to {}", of, to.fill_null("unknown")))

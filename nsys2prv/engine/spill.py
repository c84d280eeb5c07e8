"""Points that wait to be encoded: sorted by time, with an index from time to rows, in Arrow IPC files or in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from nsys2prv.errors import OutputError
from nsys2prv.merge.summary import Kind, Spill

# What a window has of a spill is read in whole batches; smaller ones take longer each.
BATCH_ROWS = 1 << 13


def write_spill(
    path: Path, kind: Kind, family: str, points: pl.DataFrame, columns: Sequence[str], sorted_by: str = "time"
) -> Spill:
    """Write sorted points. Raises OutputError when the disk takes no more."""
    try:
        points.write_ipc(path, compression="uncompressed", record_batch_size=BATCH_ROWS)
    except OSError as error:
        raise OutputError(f"{path.parent}: cannot write intermediate files ({error}); free space there") from None
    return _indexed(path, kind, family, points, columns, sorted_by)


def hold_points(path: Path, kind: Kind, family: str, points: pl.DataFrame, columns: Sequence[str]) -> Spill:
    """Keep sorted points in memory, for the process that will encode them; `path` is only their name."""
    return replace(_indexed(path, kind, family, points, columns, "time"), held=points)


def _indexed(
    path: Path, kind: Kind, family: str, points: pl.DataFrame, columns: Sequence[str], sorted_by: str
) -> Spill:
    times = points[sorted_by].to_numpy()
    starts = np.arange(0, len(times), BATCH_ROWS)
    last = np.append(starts[1:], len(times)) - 1
    pairs = sum(points[c].count() for c in columns)
    return Spill(path, kind, family, len(times), pairs, tuple(columns), times[starts], times[last])


def read_spill(spill: Spill, batches: Sequence[int]) -> pl.DataFrame:
    """The rows of successive batches (those of neighbours in time always are), under the report's numbers."""
    first, count = batches[0] * BATCH_ROWS, (batches[-1] - batches[0] + 1) * BATCH_ROWS
    held = spill.held
    rows = pl.scan_ipc(spill.path).slice(first, count).collect() if held is None else held.slice(first, count)
    offsets = {"place": spill.places, "to_place": spill.places, "slot": spill.slots, "member": spill.members}
    moved = {c: o for c, o in offsets.items() if o and c in rows.columns}
    return rows.with_columns((pl.col(c) + o).cast(rows.schema[c]) for c, o in moved.items())

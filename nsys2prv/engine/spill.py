"""Points that wait to be encoded: sorted by time, with an index from time to rows, in files or in memory.

A file is a row of Arrow IPC streams, one for each batch of rows, and the index says where each begins. To read one
takes 0.2 ms; Polars' reader of Arrow IPC files, which hands the work to threads and back, takes 0.8 to 1.5 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from mmap import ACCESS_READ, mmap
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
    begins = [0]
    try:
        # Not buffered, so that the file is where the last batch ended.
        with path.open("wb", buffering=0) as file:
            for batch in points.iter_slices(BATCH_ROWS):
                batch.write_ipc_stream(file, compression="uncompressed")
                begins.append(file.tell())
    except OSError as error:
        raise OutputError(f"{path.parent}: cannot write intermediate files ({error}); free space there") from None
    return replace(_indexed(path, kind, family, points, columns, sorted_by), begins=np.array(begins))


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
    first, count = batches[0], batches[-1] - batches[0] + 1
    held = spill.held
    rows = _read(spill, first, count) if held is None else held.slice(first * BATCH_ROWS, count * BATCH_ROWS)
    offsets = {"place": spill.places, "to_place": spill.places, "slot": spill.slots, "member": spill.members}
    moved = {c: o for c, o in offsets.items() if o and c in rows.columns}
    return rows.with_columns((pl.col(c) + o).cast(rows.schema[c]) for c, o in moved.items())


def _read(spill: Spill, first: int, count: int) -> pl.DataFrame:
    begins = spill.begins[first : first + count + 1].tolist()
    with spill.path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        return pl.concat([pl.read_ipc_stream(BytesIO(data[begin:end])) for begin, end in pairwise(begins)])

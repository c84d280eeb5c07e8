"""Points that wait to be encoded: sorted by time, with an index from time to rows, in files or in memory.

A file is a row of Arrow IPC streams: what combinations events have, then one for each batch of rows, and the index says
where each begins. To read one takes 0.2 ms; Polars' reader of Arrow IPC files, which hands the work to threads and
back, takes 0.8 to 1.5 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from nsys2prv.errors import OutputError
from nsys2prv.pipeline.store.combinations import Points, pairs_of
from nsys2prv.run.report_summary import Kind, Spill

# What a window has of a spill is read in whole batches; smaller ones take longer each.
BATCH_ROWS = 1 << 13


def write_spill(
    path: Path,
    kind: Kind,
    family: str,
    points: Points,
    columns: Sequence[str],
    sorted_by: str = "time",
    compression: Literal["uncompressed", "lz4"] = "uncompressed",
) -> Spill:
    """Write sorted points. Raises OutputError when the disk takes no more."""
    begins = []
    try:
        # Not buffered, so that the file is where the last batch ended.
        with path.open("wb", buffering=0) as file:
            if points.combinations is not None:
                points.combinations.write_ipc_stream(file, compression="uncompressed")
            for batch in points.data.iter_slices(BATCH_ROWS):
                begins.append(file.tell())
                batch.write_ipc_stream(file, compression=compression)
            begins.append(file.tell())
    except OSError as error:
        raise OutputError(f"{path.parent}: cannot write intermediate files ({error}); free space there") from None
    return _indexed(path, kind, family, points, columns, sorted_by)._replace(begins=np.array(begins))


def hold_points(path: Path, kind: Kind, family: str, points: Points, columns: Sequence[str]) -> Spill:
    """Keep sorted points in memory, for the process that will encode them; `path` is only their name."""
    indexed = _indexed(path, kind, family, points, columns, "time")
    return indexed._replace(held=points.data, combinations=points.combinations)


def _indexed(path: Path, kind: Kind, family: str, points: Points, columns: Sequence[str], sorted_by: str) -> Spill:
    data = points.data
    times = data[sorted_by].to_numpy()
    starts = np.arange(0, len(times), BATCH_ROWS)
    last = np.append(starts[1:], len(times)) - 1
    pairs = sum(data[c].count() for c in columns)
    if points.combinations is not None:
        pairs += 2 * sum(pairs_of(points.combinations).values())
    return Spill(path, kind, family, len(times), pairs, tuple(columns), times[starts], times[last])


def read_spill(spill: Spill, batches: Sequence[int]) -> pl.DataFrame:
    """The rows of successive batches (those of neighbours in time always are), under the report's numbers."""
    first, count = batches[0], batches[-1] - batches[0] + 1
    if spill.held is not None:
        return _moved(spill, spill.held.slice(first * BATCH_ROWS, count * BATCH_ROWS))
    return _moved(spill, pl.concat(_read(spill, spill.begins[first : first + count + 1].tolist())))


def read_combinations(spill: Spill) -> pl.DataFrame:
    """What combinations the points of a spill have (see `points.event_points`), under the report's numbers."""
    if spill.combinations is not None:
        return _moved(spill, spill.combinations)
    return _moved(spill, next(_read(spill, [0, int(spill.begins[0])])))


def _moved(spill: Spill, rows: pl.DataFrame) -> pl.DataFrame:
    offsets = {"place": spill.places, "to_place": spill.places, "slot": spill.slots, "member": spill.members}
    moved = {c: o for c, o in offsets.items() if o and c in rows.columns}
    return rows.with_columns((pl.col(c) + o).cast(rows.schema[c]) for c, o in moved.items()) if moved else rows


def _read(spill: Spill, begins: Sequence[int]) -> Iterator[pl.DataFrame]:
    with spill.path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        for begin, end in pairwise(begins):
            yield pl.read_ipc_stream(BytesIO(data[begin:end]))

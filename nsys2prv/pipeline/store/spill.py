"""Stored points that wait to be encoded: sorted by time, with an index from time to rows, in files or in memory.

A file is a row of Arrow IPC streams: the combinations of events, then one stream for each batch of rows. The index says
where each begins. A window reads whole batches. To read one takes 0.2 ms; Polars' reader of Arrow IPC files, which
hands the work to threads and back, takes 0.8 to 1.5 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from nsys2prv.errors import not_written
from nsys2prv.pipeline.store.combinations import pairs_of
from nsys2prv.pipeline.store.points import Points
from nsys2prv.pipeline.workers.partial_files import reading, replacing
from nsys2prv.run.report_summary import Spill, SpillKind

# Columns with the end of an interval, and with the time when a message or launched work arrives.
_UNTIL = ("end", "received")


class SpillOf(NamedTuple):
    """Kind and family of the points of a spill, and the columns of their attributes."""

    kind: SpillKind
    family: str
    columns: tuple[str, ...] = ()


def write_spill(
    path: Path,
    of: SpillOf,
    points: Points,
    batch_rows: int,
    compression: Literal["uncompressed", "lz4"] = "uncompressed",
) -> Spill:
    """Write sorted points in batches of so many rows, to a file that moves to `path` when it is complete.

    Raises OutputError when the disk takes no more.
    """
    begins = []
    try:
        # Not buffered, so that the file is where the last batch ended.
        with replacing(path) as beside, beside.open("wb", buffering=0) as file:
            if points.combinations is not None:
                points.combinations.write_ipc_stream(file, compression="uncompressed")
            for batch in points.data.iter_slices(batch_rows):
                begins.append(file.tell())
                batch.write_ipc_stream(file, compression=compression)
            begins.append(file.tell())
    except OSError as error:
        raise not_written(path.parent, error) from None
    return _indexed(path, of, points, batch_rows)._replace(begins=np.array(begins))


def hold_points(path: Path, of: SpillOf, points: Points, batch_rows: int) -> Spill:
    """Keep sorted points in memory for the process that will encode them. `path` only names them."""
    begins = np.append(np.arange(0, points.data.height, batch_rows), points.data.height)
    indexed = _indexed(path, of, points, batch_rows)
    return indexed._replace(begins=begins, held=points.data, combinations=points.combinations)


def _indexed(path: Path, of: SpillOf, points: Points, batch_rows: int) -> Spill:
    """Return the spill of points, without the begins of its batches."""
    data = points.data
    times = data["key" if of.kind == "ends" else "time"].to_numpy()
    starts = np.arange(0, len(times), batch_rows)
    last = np.append(starts[1:], len(times)) - 1
    pairs = sum(data[c].count() for c in of.columns)
    if points.combinations is not None:
        pairs += 2 * sum(pairs_of(points.combinations).values())
    until = next((data[c].to_numpy() for c in _UNTIL if c in data.columns), times)
    reach = np.maximum.reduceat(until, starts) if len(starts) else times
    return Spill(path, of.kind, of.family, len(times), pairs, of.columns, times[starts], times[last], reach)


def read_spill(spill: Spill, batches: Sequence[int]) -> pl.DataFrame:
    """Read successive batches, under the report's numbers. Batches that are neighbors in time are successive."""
    begins = spill.begins[batches[0] : batches[-1] + 2].tolist()
    if spill.held is not None:
        return _moved(spill, spill.held.slice(begins[0], begins[-1] - begins[0]))
    return _moved(spill, pl.concat(_read(spill, begins)))


def read_around(spill: Spill, low: int, high: int) -> pl.DataFrame | None:
    """Read the batches with times (keys of ends) in [low, high), as `read_spill` does; None without any.

    Rows at their edges may lie outside.
    """
    batches = np.flatnonzero((spill.last >= low) & (spill.first < high))
    return read_spill(spill, batches.tolist()) if len(batches) else None


def read_combinations(spill: Spill) -> pl.DataFrame:
    """Read the combinations of a spill's points (see `points.event_points`), under the report's numbers."""
    if spill.combinations is not None:
        return _moved(spill, spill.combinations)
    return _moved(spill, next(_read(spill, [0, int(spill.begins[0])])))


def _moved(spill: Spill, rows: pl.DataFrame) -> pl.DataFrame:
    """Add the offsets of a report's part to the numbers of places, slots and members."""
    places = dict.fromkeys(("place", "to_place", "stream", "record_stream"), spill.places)
    offsets = {**places, "slot": spill.slots, "member": spill.members}
    moved = {c: o for c, o in offsets.items() if o and c in rows.columns}
    return rows.with_columns((pl.col(c) + o).cast(rows.schema[c]) for c, o in moved.items()) if moved else rows


def _read(spill: Spill, begins: Sequence[int]) -> Iterator[pl.DataFrame]:
    """Yield the Arrow streams of a file between each of some places and the next."""
    with reading(spill.path), spill.path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        for begin, end in pairwise(begins):
            yield pl.read_ipc_stream(BytesIO(data[begin:end]))

"""Numbers for the places, event types and labels of a report, dense from 0 in the order of appearance.

The numbers are the report's own; the plan turns them into the trace's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import starmap
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.model.global_ids import process_of, tid_of
from nsys2prv.model.schemas import to_schema

# Integers lie close where there are at most so many from the lowest to the highest for each row.
CLOSE = 8
# Kinds of places. `thread`: host thread; `stream`: CUDA stream; `gpu`: a GPU. Places that differ in `sampler` alone
# share a row. `sampler` is the sampler of a GPU.
THREAD, STREAM, GPU = "thread", "stream", "gpu"


class Place(NamedTuple):
    """The identity of a place. Fields that its kind lacks are None.

    `process`: the serialized process id (globalPid); `device`: that process' number of a GPU; `gpu`: the host's.
    """

    kind: str
    process: int | None = None
    thread: int | None = None
    device: int | None = None
    context: int | None = None
    stream: int | None = None
    lane: int | None = 0
    sampler: str | None = None
    gpu: int | None = None


PLACE = {**dict.fromkeys(Place._fields, pl.Int64()), "kind": pl.String(), "sampler": pl.String(), "id": pl.UInt32()}


class Interner:
    """Distinct rows of some columns, numbered. `table` has the columns and `id`."""

    def __init__(self, schema: dict[str, pl.DataType]) -> None:
        self.columns = list(schema)
        self.table = pl.DataFrame(schema={**schema, "id": pl.UInt32()})

    def ids(self, rows: pl.DataFrame) -> pl.Series:
        """Return the number of each row (UInt32), a new one for each row not seen before."""
        rows = rows if rows.columns == self.columns else rows.select(self.columns)
        distinct = rows.unique(maintain_order=True)
        known = self.table.height
        fresh = distinct
        if not self.table.is_empty():
            fresh = distinct.join(self.table, on=self.columns, how="anti", nulls_equal=True, maintain_order="left")
        if not fresh.is_empty():
            numbered = fresh.with_row_index("id", offset=known)
            self.table = pl.concat([self.table, numbered.select(self.table.columns)])
        if fresh.height == rows.height:
            return pl.int_range(known, known + rows.height, dtype=pl.UInt32, eager=True).alias("id")
        if distinct.height == 1:
            only = distinct.join(self.table, on=self.columns, how="inner", nulls_equal=True)["id"][0]
            return pl.repeat(only, rows.height, dtype=pl.UInt32, eager=True).alias("id")
        return rows.join(self.table, on=self.columns, how="left", nulls_equal=True, maintain_order="left")["id"]


class Places:
    """The places of one report. They are few, and so are looked up one by one."""

    def __init__(self) -> None:
        self._numbers: dict[Place, int] = {}

    @property
    def table(self) -> pl.DataFrame:
        """Return PLACE: the fields of each place and its number, `id`."""
        return pl.DataFrame([(*place, n) for place, n in self._numbers.items()], schema=PLACE, orient="row")

    def _ids(self, places: Iterable[Place]) -> pl.Series:
        """Return the number of each place, a new one for each place not seen before."""
        numbers = [self._numbers.setdefault(place, len(self._numbers)) for place in places]
        return pl.Series("place", numbers, dtype=pl.UInt32)

    def threads(self, global_tids: pl.Series) -> pl.Series:
        """Number host threads by globalTid."""
        tids, at = distinct_of(global_tids)
        return self._ids(map(_thread, tids.to_list())).gather(at)

    def streams(self, rows: pl.DataFrame) -> pl.Series:
        """Number streams by (globalPid, deviceId, contextId, streamId); a process or context that is missing is 0."""
        return self._of_rows(
            rows.select(
                pl.col("globalPid").cast(pl.Int64).fill_null(0),
                pl.col("deviceId").cast(pl.Int64),
                pl.col("contextId").cast(pl.Int64).fill_null(0),
                pl.col("streamId").cast(pl.Int64),
            ),
            lambda pid, device, context, stream: Place(STREAM, pid, None, device, context, stream),
        )

    def in_lanes(self, places: pl.Series, lanes: pl.Series) -> pl.Series:
        """Number the same threads or streams, each in another lane."""
        width = _highest(lanes) + 1
        pairs, at = distinct_of(places.cast(pl.Int64) * width + lanes.cast(pl.Int64))
        known = list(self._numbers)
        return self._ids(known[pair // width]._replace(lane=pair % width) for pair in pairs.to_list()).gather(at)

    def in_first_lane(self, places: pl.Series) -> pl.Series:
        """Number the same threads or streams, each in its first lane."""
        return self.in_lanes(places, pl.repeat(0, len(places), dtype=pl.Int64, eager=True))

    def gpus(self, numbers: pl.Series, sampler: str) -> pl.Series:
        """Number GPUs by the host's own number of them."""
        numbers, at = distinct_of(numbers.cast(pl.Int64))
        return self._ids(Place(GPU, gpu=number, sampler=sampler) for number in numbers.to_list()).gather(at)

    def gpus_of_processes(self, rows: pl.DataFrame, sampler: str) -> pl.Series:
        """Number GPUs by (globalPid, gpuId), gpuId being the host's own number.

        The row belongs to the process' task if there is one, else to the task that uses the GPU.
        """
        return self._of_rows(
            rows.select(pl.col("globalPid", "gpuId").cast(pl.Int64)),
            lambda pid, number: Place(GPU, pid, sampler=sampler, gpu=number),
        )

    def devices(self, rows: pl.DataFrame, sampler: str) -> pl.Series:
        """Number GPUs by (globalPid, deviceId, lane), deviceId being the process' own number. See gpus_of_processes."""
        return self._of_rows(
            rows.select(pl.col("globalPid", "deviceId", "lane").cast(pl.Int64)),
            lambda pid, device, lane: Place(GPU, pid, device=device, lane=lane, sampler=sampler),
        )

    def _of_rows(self, rows: pl.DataFrame, place: Callable[..., Place]) -> pl.Series:
        """Return the number of the place that each row names."""
        distinct = rows.unique(maintain_order=True)
        ids = self._ids(starmap(place, distinct.rows()))
        if distinct.height == 1:
            return pl.repeat(ids[0], rows.height, dtype=pl.UInt32, eager=True).alias("place")
        numbered = distinct.with_columns(ids)
        return rows.join(numbered, on=rows.columns, how="left", nulls_equal=True, maintain_order="left")["place"]


def _thread(tid: int | None) -> Place:
    if tid is None:
        return Place(THREAD)
    return Place(THREAD, process_of(tid), tid_of(tid))


def _highest(numbers: pl.Series) -> int:
    """Return the highest of some numbers, or 0 without any."""
    highest = numbers.max()
    return highest if isinstance(highest, int) else 0


# GPU of an operation of a process with several, where it is not known which.
UNKNOWN_GPU = -1

# Columns: see Members.table.
MEMBER = {
    "id": pl.UInt32(),
    "process": pl.Int64(),
    "device": pl.Int64(),
    "communicator": pl.String(),
    "rank": pl.Int64(),
    "ranks": pl.Int64(),
    "highest": pl.Int64(),
    "gpu": pl.Int64(),
    "called": pl.Int64(),
    "operated": pl.Int64(),
}
_FACTS = ["rank", "ranks", "highest", "gpu", "called", "operated"]
# Values of two columns of MEMBER that say from where its operations are known (null: not from there). `called`:
# FROM_CALLS, from calls of host threads. `operated`, from operations on the device: IDENTIFIED if each has a number
# that is equal on all ranks, SOME_WITHOUT if some have none.
FROM_CALLS, IDENTIFIED, SOME_WITHOUT = 1, 1, 2


class Members:
    """Processes on communicators, numbered; of a process with several GPUs each by itself.

    A communicator's name is the same in all reports.
    """

    def __init__(self) -> None:
        self._interner = Interner({c: MEMBER[c] for c in ("process", "device", "communicator")})
        self._facts: list[pl.DataFrame] = []

    def ids(self, rows: pl.DataFrame) -> pl.Series:
        """Return the number of each row's member. Of MEMBER's columns device and facts may lack; facts may be null."""
        lacking = (c for c in ("device", *_FACTS) if c not in rows.columns)
        rows = rows.with_columns(pl.lit(None, MEMBER[c]).alias(c) for c in lacking)
        ids = self._interner.ids(rows)
        facts = rows.select(_FACTS).insert_column(0, ids.alias("id"))
        self._facts.append(facts.group_by("id").agg(pl.col(_FACTS).max()))
        return ids.alias("member")

    @property
    def table(self) -> pl.DataFrame:
        """Return MEMBER: `rank` and `ranks` from the report, and the `highest` rank named as peer or root.

        `device`: null but for one GPU of several of its process; `gpu`: where its kernels ran, if any did. `called`
        and `operated`: see FROM_CALLS.
        """
        if not self._facts:
            return pl.DataFrame(schema=MEMBER)
        facts = pl.concat(self._facts).group_by("id").agg(pl.all().max())
        known = self._interner.table.join(facts, on="id", how="left", maintain_order="left")
        return to_schema(known, MEMBER)


class Labels:
    """Labels of one report by event type key: text -> number, from 1 on (0 ends an event)."""

    def __init__(self) -> None:
        self._by_key: dict[str, Interner] = {}

    def ids(self, key: str, texts: pl.Series) -> pl.Series:
        """Return the number of each text (Int64; null stays null)."""
        interner = self._by_key.setdefault(key, Interner({"text": pl.String()}))
        rows = pl.DataFrame({"text": texts})
        if not texts.null_count():
            return interner.ids(rows).cast(pl.Int64) + 1
        interner.ids(rows.drop_nulls())
        return rows.join(interner.table, on="text", how="left", maintain_order="left")["id"].cast(pl.Int64) + 1

    def texts(self) -> dict[str, list[str]]:
        """Return texts of each key in the order of their numbers."""
        return {key: interner.table["text"].to_list() for key, interner in self._by_key.items()}


class Slots:
    """Event types that a report's events have, numbered."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def number(self, key: str) -> int:
        """Return the number of an event type by its key."""
        if key not in self.keys:
            self.keys.append(key)
        return self.keys.index(key)


def distinct_of(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the distinct values of a column of integers, and for each row the index of its own among them (UInt32)."""
    low, high = column.min(), column.max()
    if column.null_count() or not isinstance(low, int) or not isinstance(high, int) or high - low > CLOSE * len(column):
        distinct = column.unique(maintain_order=True)
        numbered = pl.DataFrame({"value": distinct}).with_row_index("at")
        rows = pl.DataFrame({"value": column})
        return distinct, rows.join(numbered, on="value", how="left", nulls_equal=True, maintain_order="left")["at"]
    # A mark for each integer from the lowest to the highest: a sixth of the time that hashing takes.
    offsets = column.to_numpy() - low
    seen = np.zeros(high - low + 1, dtype=np.bool_)
    seen[offsets] = True
    found = np.flatnonzero(seen)
    at = np.zeros(len(seen), dtype=np.uint32)
    at[found] = np.arange(len(found))
    return pl.Series(column.name, found + low), pl.Series(at[offsets])

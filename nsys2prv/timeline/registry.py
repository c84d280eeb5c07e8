"""Numbers for what a report names: places, event types and labels, dense from 0 in the order of appearance.

The numbers are the report's own; the plan turns them into the trace's.
"""

from __future__ import annotations

import numpy as np
import polars as pl

# Integers lie close where there are at most so many from the lowest to the highest for each row.
CLOSE = 8
PLACE_KEY = ("kind", "process", "thread", "device", "context", "stream", "lane", "sampler")
# Kinds of places. `thread`: host thread; `stream`: CUDA stream; `gpu`: a GPU by its host's number, or by a process and
# that process' number of it. Places that differ in `sampler` alone share a row: what samples a GPU is told apart by it.
THREAD, STREAM, GPU = "thread", "stream", "gpu"


class Interner:
    """Distinct rows of some columns, numbered. `table` has the columns and `id`."""

    def __init__(self, schema: dict[str, pl.DataType]) -> None:
        self.columns = list(schema)
        self.table = pl.DataFrame(schema={**schema, "id": pl.UInt32()})

    def ids(self, rows: pl.DataFrame) -> pl.Series:
        """Number of each row (UInt32), new ones given to rows not seen before."""
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
    """Places of one report. `process` is the serialized process id (globalPid)."""

    def __init__(self) -> None:
        keys = dict.fromkeys(PLACE_KEY, pl.Int64())
        self._interner = Interner({**keys, "kind": pl.String(), "sampler": pl.String()})

    @property
    def table(self) -> pl.DataFrame:
        """PLACE_KEY columns and `id`; what a kind does not have is null."""
        return self._interner.table

    def threads(self, global_tids: pl.Series, lane: pl.Series | None = None) -> pl.Series:
        """Host threads by globalTid (process in the bits above 24)."""
        if lane is None:
            tids, at = distinct_of(global_tids.rename("tid"))
            return self._thread_ids(tids.to_frame().with_columns(lane=pl.lit(0, pl.Int64))).gather(at).alias("place")
        rows = pl.DataFrame({"tid": global_tids, "lane": lane.cast(pl.Int64)})
        distinct = rows.unique(maintain_order=True)
        return _map_back(rows, distinct, self._thread_ids(distinct))

    def _thread_ids(self, distinct: pl.DataFrame) -> pl.Series:
        keys = distinct.select(
            kind=pl.lit(THREAD),
            process=pl.col("tid") // (1 << 24) * (1 << 24),
            thread=pl.col("tid") % (1 << 24),
            device=pl.lit(None, pl.Int64),
            context=pl.lit(None, pl.Int64),
            stream=pl.lit(None, pl.Int64),
            lane="lane",
            sampler=pl.lit(None, pl.String),
        )
        return self._interner.ids(keys)

    def streams(self, rows: pl.DataFrame) -> pl.Series:
        """Streams by (globalPid, deviceId, contextId, streamId, lane)."""
        columns = ["globalPid", "deviceId", "contextId", "streamId", "lane"]
        rows = rows.select(pl.col(columns).cast(pl.Int64))
        distinct = rows.unique(maintain_order=True)
        keys = distinct.select(
            kind=pl.lit(STREAM),
            process="globalPid",
            thread=pl.lit(None, pl.Int64),
            device="deviceId",
            context="contextId",
            stream="streamId",
            lane="lane",
            sampler=pl.lit(None, pl.String),
        )
        return _map_back(rows, distinct, self._interner.ids(keys))

    def in_lanes(self, places: pl.Series, lanes: pl.Series) -> pl.Series:
        """The same threads or streams, each in another lane."""
        rows = pl.DataFrame({"place": places.cast(pl.UInt32), "in_lane": lanes.cast(pl.Int64)})
        distinct = rows.unique(maintain_order=True)
        known = distinct.join(self.table, left_on="place", right_on="id", how="left", maintain_order="left")
        keys = known.with_columns(lane="in_lane").select(PLACE_KEY)
        return _map_back(rows, distinct, self._interner.ids(keys))

    def gpus(self, numbers: pl.Series, sampler: str) -> pl.Series:
        """GPUs by the host's own number of them."""
        return self.devices(
            pl.select(globalPid=pl.lit(None, pl.Int64), deviceId=numbers.cast(pl.Int64), lane=pl.lit(0, pl.Int64)),
            sampler,
        )

    def devices(self, rows: pl.DataFrame, sampler: str) -> pl.Series:
        """GPUs by (globalPid, deviceId, lane), deviceId being the process' own number, or the host's without process.

        The row is that of the process' task, should it have one, else that of the task which uses the GPU.
        """
        rows = rows.select(pl.col("globalPid", "deviceId", "lane").cast(pl.Int64))
        distinct = rows.unique(maintain_order=True)
        keys = distinct.select(
            kind=pl.lit(GPU),
            process="globalPid",
            thread=pl.lit(None, pl.Int64),
            device="deviceId",
            context=pl.lit(None, pl.Int64),
            stream=pl.lit(None, pl.Int64),
            lane="lane",
            sampler=pl.lit(sampler),
        )
        return _map_back(rows, distinct, self._interner.ids(keys))


MEMBER = {
    "id": pl.UInt32(),
    "process": pl.Int64(),
    "communicator": pl.String(),
    "rank": pl.Int64(),
    "ranks": pl.Int64(),
    "highest": pl.Int64(),
}


class Members:
    """Processes on communicators, numbered. A communicator's name is the same in all reports."""

    def __init__(self) -> None:
        self._interner = Interner({"process": pl.Int64(), "communicator": pl.String()})
        self._said: list[pl.DataFrame] = []

    def ids(self, rows: pl.DataFrame) -> pl.Series:
        """Number of each row's member: MEMBER's columns; rank, ranks and highest may be null."""
        ids = self._interner.ids(rows)
        facts = ["rank", "ranks", "highest"]
        self._said.append(rows.select(facts).insert_column(0, ids.alias("id")).group_by("id").agg(pl.col(facts).max()))
        return ids.alias("member")

    @property
    def table(self) -> pl.DataFrame:
        """MEMBER: `rank` and `ranks` as the report says, `highest` rank that an operation names as peer or root."""
        if not self._said:
            return pl.DataFrame(schema=MEMBER)
        facts = pl.concat(self._said).group_by("id").agg(pl.all().max())
        known = self._interner.table.join(facts, on="id", how="left", maintain_order="left")
        return known.select(pl.col(c).cast(t) for c, t in MEMBER.items())


class Labels:
    """Labels of one report by event type key: text -> number, from 1 on (0 ends an event)."""

    def __init__(self) -> None:
        self._by_key: dict[str, Interner] = {}

    def ids(self, key: str, texts: pl.Series) -> pl.Series:
        """Number of each text (Int64; null stays null)."""
        interner = self._by_key.setdefault(key, Interner({"text": pl.String()}))
        rows = pl.DataFrame({"text": texts})
        if not texts.null_count():
            return interner.ids(rows).cast(pl.Int64) + 1
        interner.ids(rows.drop_nulls())
        return rows.join(interner.table, on="text", how="left", maintain_order="left")["id"].cast(pl.Int64) + 1

    def texts(self) -> dict[str, list[str]]:
        """Texts of each key in the order of their numbers."""
        return {key: interner.table["text"].to_list() for key, interner in self._by_key.items()}


class Slots:
    """Event types that a report's events have, numbered."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def number(self, key: str) -> int:
        """Number of an event type by its key."""
        if key not in self.keys:
            self.keys.append(key)
        return self.keys.index(key)


def distinct_of(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Distinct values of a column of integers, and for each row where among them its own is (UInt32)."""
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


def _map_back(rows: pl.DataFrame, distinct: pl.DataFrame, ids: pl.Series) -> pl.Series:
    if distinct.height == 1:
        return pl.repeat(ids[0], rows.height, dtype=pl.UInt32, eager=True).alias("place")
    # A name of its own: the rows may be places themselves.
    numbered = distinct.with_columns(ids.alias("number"))
    found = rows.join(numbered, on=rows.columns, how="left", nulls_equal=True, maintain_order="left")
    return found["number"].alias("place")

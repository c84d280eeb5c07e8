"""The streams of a run, and the work that was launched on each by a time."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.frames import Run, stream_of
from nsys2prv.run.trace_rows import NO_ROW

# In place of the stream of a row that is none.
NO_STREAM = -1


class Streams(NamedTuple):
    """Streams of a run: rows with their streams, and stream, task and device of those with work.

    These have the numbers from 0 on, in order; others have higher ones.
    """

    rows: pl.DataFrame
    with_work: pl.DataFrame

    def of(self, rows: pl.Series) -> pl.Series:
        """Return the stream of each row; NO_STREAM for rows that are none."""
        return rows.replace_strict(self.rows["row"], self.rows["stream"], default=NO_STREAM, return_dtype=pl.Int64)


def streams_of(run: Run) -> Streams:
    """Number the streams of a run. Lanes of a stream are one stream; streams that only wait are streams, too."""
    rows = run.work.select("task", "device", "row").unique("row", keep="first", maintain_order=True).sort("row")
    stream = stream_of(run).rank("dense").cast(pl.Int64) - 1
    numbered = rows.with_columns(stream=stream).sort("stream")
    waiting = pl.concat([run.waits[c] for c in ("stream", "record_stream")]).unique().sort().alias("row")
    idle = waiting.filter((waiting != NO_ROW) & ~waiting.is_in(numbered["row"].implode())).to_frame()
    with_work = numbered.unique("stream", keep="first", maintain_order=True).select("stream", "task", "device")
    added = idle.select("row", stream=pl.int_range(pl.len()) + with_work.height)
    every = pl.concat([numbered.select("row", "stream"), added])
    return Streams(every, with_work.cast(pl.Int64))


def work_of_streams(run: Run, streams: Streams) -> pl.DataFrame:
    """Return `work` (index in Run.work), stream, row, start, end and `launched` (its start if that is not known)."""
    return run.work.with_row_index("work").select(
        pl.col("work").cast(pl.Int64),
        *("row", "start", "end"),
        streams.of(run.work["row"]).alias("stream"),
        pl.coalesce("launched", "start"),
    )


def launched_before(run: Run, streams: Streams, wanted: pl.DataFrame, stream: str, time: str) -> pl.DataFrame:
    """Add `work`: the activity that was launched last on a stream by a time (index in Run.work; null: none).

    `wanted` has these two columns; it is returned in order of time.
    """
    known = (
        work_of_streams(run, streams)
        .sort("launched", "work")
        .select("work", pl.col("stream").alias(stream), pl.col("launched").alias(time))
    )
    return wanted.sort(time, maintain_order=True).join_asof(
        known, on=time, by=stream, strategy="backward", check_sortedness=False
    )

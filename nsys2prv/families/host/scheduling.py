"""CPU scheduling: when a thread ran, on which core, and why it did not."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.families.calls import on_threads
from nsys2prv.families.family import Family, Source
from nsys2prv.model.event_types import CPU_CORE, CPU_STATE
from nsys2prv.model.frames import Intervals
from nsys2prv.report import schema

# ENUM_SAMPLING_THREAD_STATE of a thread that leaves its core -> value of CPU_STATE: what still could run is ready.
STATES = {1: 2, 2: 3, 3: 4, 4: 5, 7: 3, 8: 3}
RUNNING, OFF, TERMINATED = 1, 6, 5


_LAST = "last switch of each thread"


def _frames(source: Source) -> Iterator[Intervals]:
    switches = source.after_carried(_LAST, on_threads(source, source.table(schema.SCHEDULING)))
    if switches.is_empty():
        return
    # A thread that leaves and enters at one time enters last.
    switches = switches.sort("globalTid", "start", pl.col("isSchedIn") != 0)
    switches = switches.with_columns(end=pl.col("start").shift(-1).over("globalTid"))
    if not source.slice.last:
        # How long a thread's last one lasts the next slice tells.
        source.carried[_LAST] = switches.filter(pl.col("end").is_null()).drop("end")
        switches = switches.drop_nulls("end")
    running = pl.col("isSchedIn") != 0
    why = pl.col("threadState").replace_strict(STATES, default=OFF, return_dtype=pl.Int64)
    end = pl.col("end").fill_null(source.last)
    spans = switches.with_columns(end=end, value=pl.when(running).then(RUNNING).otherwise(why))
    spans = spans.filter(
        (pl.col("end") > pl.col("start")) & (running | (pl.col("threadState") != TERMINATED).fill_null(True))
    )
    core = pl.when(running).then(pl.format("CPU {}", "cpu"))
    yield source.thread_intervals(
        spans.with_columns(
            pl.lit(source.slots.number(CPU_STATE.key)).alias("slot"),
            source.labels.ids(CPU_CORE.key, spans.select(core.alias("core"))["core"]).alias(CPU_CORE.key),
        ),
        (CPU_CORE.key,),
    )


FAMILY = Family(
    name="scheduling",
    title="CPU scheduling",
    draws=(schema.SCHEDULING,),
    reads={schema.SCHEDULING: ("start", "cpu", "isSchedIn", "globalTid", "threadState")},
    emits=(CPU_STATE, CPU_CORE),
    frames=_frames,
    makes_rows=False,
    default=False,
    sliced=True,
)

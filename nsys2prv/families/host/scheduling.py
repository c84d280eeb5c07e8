"""CPU scheduling: when a thread ran, on which core, and why it did not."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.families.calls import on_threads
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source, after
from nsys2prv.model.event_types import CPU_CORE, CPU_STATE
from nsys2prv.report import schema

# ENUM_SAMPLING_THREAD_STATE of a thread that leaves its core -> value of CPU_STATE: a thread that could run is ready.
STATE_OF_THREAD = {1: 2, 2: 3, 3: 4, 4: 5, 7: 3, 8: 3}
ON_CORE, OFF, TERMINATED = 1, 6, 5


class LastSwitches(NamedTuple):
    """The last switch of each thread: the next slice shows how long it lasts."""

    rows: pl.DataFrame | None = None


def _frames(source: Source, state: LastSwitches) -> Frames[LastSwitches]:
    """Yield when threads ran, with their core, and why they did not. The last switches are kept for the next slice."""
    switches = after(state.rows, on_threads(source, source.table(schema.SCHEDULING)))
    if switches.is_empty():
        return state
    # A thread that leaves and enters at one time enters last.
    switches = switches.sort("globalTid", "start", pl.col("isSchedIn") != 0)
    switches = switches.with_columns(end=pl.col("start").shift(-1).over("globalTid"))
    last = switches.filter(pl.col("end").is_null()).drop("end")
    if not source.slice.last:
        switches = switches.drop_nulls("end")
    running = pl.col("isSchedIn") != 0
    why = pl.col("threadState").replace_strict(STATE_OF_THREAD, default=OFF, return_dtype=pl.Int64)
    end = pl.col("end").fill_null(source.last)
    spans = switches.with_columns(end=end, value=pl.when(running).then(ON_CORE).otherwise(why))
    spans = spans.filter(
        (pl.col("end") > pl.col("start")) & (running | (pl.col("threadState") != TERMINATED).fill_null(True))
    )
    core = pl.when(running).then(pl.format("CPU {}", "cpu"))
    yield source.thread_intervals(
        spans.with_columns(
            source.slot(CPU_STATE.key),
            source.labels.ids(CPU_CORE.key, spans.select(core.alias("core"))["core"]).alias(CPU_CORE.key),
        ),
        (CPU_CORE.key,),
    )
    return LastSwitches(last)


FAMILY = Family(
    name="scheduling",
    title="CPU scheduling",
    draws=(schema.SCHEDULING,),
    reads={schema.SCHEDULING: ("start", "cpu", "isSchedIn", "globalTid", "threadState")},
    emits=(CPU_STATE, CPU_CORE),
    frames=_frames,
    state=LastSwitches,
    makes_rows=False,
    default=False,
    sliced=True,
)

"""Intervals of families whose rows are calls of host threads, told apart by a name only."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsys2prv.families.source import Source
from nsys2prv.model.event_type import EventType
from nsys2prv.model.frames import Intervals
from nsys2prv.model.losses import Loss
from nsys2prv.report.declaration import Table

UNNAMED = "(unnamed)"
COLUMNS = ("start", "end", "globalTid", "nameId")


def on_threads(source: Source, events: pl.DataFrame) -> pl.DataFrame:
    """Keep the events with a thread, and count the others."""
    known = events.drop_nulls("globalTid")
    source.tally.count(Loss.NO_THREAD, events.height - known.height)
    return known


def call_intervals(source: Source, tables: Sequence[Table], event_type: EventType) -> Intervals:
    """Return rows of tables with COLUMNS as intervals of one event type, labelled by name."""
    calls = pl.concat(source.table(t).select(COLUMNS) for t in tables)
    calls = on_threads(source, calls)
    named = calls.with_columns(
        slot=source.slot(event_type.key),
        value=source.label_ids(event_type.key, calls["nameId"], lambda text: text.fill_null(UNNAMED)),
    )
    return source.thread_intervals(named)

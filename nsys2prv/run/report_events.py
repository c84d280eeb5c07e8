"""The time and the processes of a report's events, whatever families are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from nsys2prv.families.registry import FAMILIES
from nsys2prv.model.global_ids import pid_of
from nsys2prv.report import schema
from nsys2prv.report.declaration import Table
from nsys2prv.report.report import Report


def event_span(report: Report) -> tuple[int, int] | None:
    """Return the first begin and the last end of all events, ns on the report's clock; None without events."""
    bounds = [b for t in report.event_tables() if (b := _bounds(report, t)) is not None]
    return (min(low for low, _ in bounds), max(high for _, high in bounds)) if bounds else None


def active_processes(report: Report, processes: Sequence[int]) -> tuple[int, ...]:
    """Return the pids that have events of families that make rows; without any, those that have other events."""
    if len(processes) < 2:
        return tuple(processes)
    for making_rows in (True, False):
        found = pids_in(report, dict.fromkeys(t for f in FAMILIES if f.makes_rows is making_rows for t in f.draws))
        if active := tuple(pid for pid in processes if pid in found):
            return active
    return ()


def pids_in(report: Report, tables: Iterable[Table]) -> tuple[int, ...]:
    """Return the pids that have rows in some tables."""
    named = [(t, c) for t in tables for c in ("globalTid", "globalPid") if c in t.columns]
    columns = [(t, c) for t, c in named if report.has_column(t, c)]
    return tuple(sorted({pid_of(of) for t, c in columns for of in report.table(t, [c])[c].drop_nulls().unique()}))


def _bounds(report: Report, table: Table) -> tuple[int, int] | None:
    """Return the first begin and the last end (without ends: begin) of a table's events, ns on the report's clock."""
    if table is not schema.NVTX:
        found = report.bounds(table)
        return found and (found[0], max(found[1], report.last(table) or found[1]))
    events = report.table(schema.NVTX, ["start", "end", "eventType"])
    named = events.filter(~pl.col("eventType").is_in(schema.NVTX_NAMES)).drop_nulls("start")
    if named.is_empty():
        return None
    return named.select(pl.col("start").min(), pl.max_horizontal(pl.col("start", "end")).max().alias("high")).row(0)

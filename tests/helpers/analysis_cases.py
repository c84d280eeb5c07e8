"""Paths, plain SQL and small frames for the tests of analysis."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.frames import CALLS, RANGES, WORK, AnalyzedTask, Device, Run, RunClocks
from nsys2prv.analysis.iterations.iteration_times import iterations
from nsys2prv.analysis.iterations.phases import main_ranges, occurrences, projected
from nsys2prv.intervals.spans import Span, one_span
from nsys2prv.run.iterations.steady import Window

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_reports"
SHARED = ROOT.parent / "shared" / "reports"

Find = Callable[[str], Path]
Analysed = Callable[..., Analysis]
# (device, start, end, kind[, launched[, task]]) of one activity.
Activity = tuple[Any, ...]


def sql(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of a query, by the standard library's sqlite3."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return connection.execute(query).fetchall()


def work_of(rows: Sequence[Activity]) -> pl.DataFrame:
    """WORK of a few activities: (device, start, end, kind[, launched[, task]])."""
    full = [
        (row[5] if len(row) > 5 else row[0], row[0], 0, row[1], row[2], *[row[3]] * 4, *[None] * 3,
         row[4] if len(row) > 4 else None, None, None, None, False, None, row[2] - row[1])
        for row in rows
    ]  # fmt: skip
    return pl.DataFrame(full, schema=WORK, orient="row")


def run_of(
    work: pl.DataFrame, calls: Sequence[tuple[Any, ...]] = (), ranges: Sequence[tuple[Any, ...]] = (), ranks: int = 2
) -> Run:
    """A run of 100 ns of some ranks with a device each. Calls: (task, row, start, end, kind, name); ranges: (task, row,
    start, end, text)."""
    texts = [(*row[:4], "default", row[4]) for row in ranges]
    return Run(
        tasks=tuple(AnalyzedTask(n, f"rank {n}", "host") for n in range(ranks)),
        devices=tuple(Device("host", n, n) for n in range(ranks)),
        work=work,
        calls=pl.DataFrame(list(calls), schema=CALLS, orient="row"),
        ranges=pl.DataFrame(texts, schema=RANGES, orient="row"),
        samples=(),
        active=Span(0, 100),
        duration=100,
        clocks=RunClocks(of_task=(0,) * ranks),
    )


def iterations_of(run: Run, name: str = "trace", kept: tuple[tuple[int, int], ...] = ()) -> pl.DataFrame:
    """ITERATION of the ranges `step #` of a run of 100 ns. `name`, `kept`: of the window, see Window."""
    main = main_ranges(run)
    steps = occurrences(main, "step #")
    return iterations(run, main, steps, projected(run.work, steps), Window(name, one_span(0, 100), kept))

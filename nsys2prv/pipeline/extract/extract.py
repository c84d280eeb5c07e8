"""Extract: one report in, its points spilled, a small summary out. Runs anywhere, on one report at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import polars as pl

from nsys2prv.families.columns_read import read_columns
from nsys2prv.families.family import Family, Slice, Source
from nsys2prv.families.registry import FAMILIES
from nsys2prv.pipeline.extract.background import later
from nsys2prv.pipeline.extract.one_report import Gathered
from nsys2prv.pipeline.extract.point_writer import Spilled
from nsys2prv.pipeline.extract.task import ExtractTask
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.report.report import open_report
from nsys2prv.report.slicing.slices import Slices, divide, readers
from nsys2prv.report.tables import ReadPiece
from nsys2prv.run.report_summary import Summary


@on_polars_thread
def extract(task: ExtractTask) -> Summary:
    """Read one report, spill the points of its families, and summarise. Raises ReportError, OutputError."""
    # Files of its own: a worker that was given up for lost over the same task has left some, or still writes them.
    task = task._replace(name=f"{task.name}.{uuid4().hex}")
    families = [f for f in FAMILIES if f.name in (*task.families, *task.timed)]
    others = [f for f in FAMILIES if f.name in task.beside]
    read = partial(read_columns, anchors=task.anchors, ranges=bool(task.ranges), beside=others)
    with open_report(task.path) as report, readers(left=1) as threads, _scratch(task) as folder:
        source = Source(report, read(families), task.rules, less=task.less, beside=tuple(read_columns(others)))
        sliced = [f for f in families if f.sliced]
        # A single thread has the core that makes the frames.
        with later(apart=pl.thread_pool_size() > 1) as then:
            gathered = Gathered(task, then, Spilled(task, source.slots))
            slices = divide(report, read(sliced), folder)
            if slices is None:
                source.take(Slice(), _ahead(source, threads))
                gathered.look(source)
                _take_all(source, gathered, families)
            else:
                _take_slices(source, gathered, sliced, slices, threads)
                source.take(Slice(), {})
                source.counted = frozenset(slices.tables)
                _take_all(source, gathered, [f for f in families if f not in sliced])
            # While the last points are made.
            gathered.ask(report)
        if task.metrics and not task.estimates:
            gathered.take_metrics(source)
        return gathered.summary(source)


@contextmanager
def _scratch(task: ExtractTask) -> Iterator[Path]:
    """Where slices of the report may lie, a folder that is not there yet and is gone afterwards."""
    beside = task.folder or task.scratch
    if beside is None:
        with TemporaryDirectory(prefix="nsys2prv-") as empty:
            yield Path(empty) / "slices"
        return
    folder = beside / f"{task.name}.slices"
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ahead(source: Source, threads: ThreadPoolExecutor) -> dict[str, ReadPiece]:
    """The tables of a whole report: read at once, or on their way in the order in which families need them."""
    report = source.report
    together = report.tables_together(source.columns)
    if together is not None:
        return {name: frame.clone for name, frame in together.items()}
    # A single thread has the core that works on the tables: they would only be in memory longer.
    if pl.thread_pool_size() == 1:
        return {}
    return {
        t.name: threads.submit(report.table, t, names).result for t, names in source.columns.items() if report.has(t)
    }


def _take_all(source: Source, gathered: Gathered, families: Sequence[Family]) -> None:
    """The whole report at once, forgetting each table with the last family that reads it."""
    for n, family in enumerate(families):
        gathered.take(family, source)
        for table in family.reads:
            if not any(table in later.reads for later in families[n + 1 :]):
                source.release(table)


def _take_slices(
    source: Source, gathered: Gathered, families: Sequence[Family], slices: Slices, threads: ThreadPoolExecutor
) -> None:
    """A large report slice by slice, the next being read meanwhile."""
    source.all_ranges = slices.range_counts
    ahead: dict[str, ReadPiece] = {}
    for number in range(slices.count):
        part = Slice(number, number == slices.count - 1, slices.until(number))
        source.take(part, ahead or _read(slices, 0, threads))
        ahead = {} if part.last else _read(slices, number + 1, threads)
        gathered.look(source)
        for family in families:
            gathered.take(family, source)
    source.all_ranges = None


def _read(slices: Slices, number: int, threads: ThreadPoolExecutor) -> dict[str, ReadPiece]:
    return {t.name: threads.submit(slices.table, t, number).result for t in slices.tables}

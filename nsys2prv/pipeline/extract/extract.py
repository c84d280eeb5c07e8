"""The extract stage for one report, whole or slice by slice: store its points and return a summary.

It runs in any process. What families gave so far is in `ReportExtraction`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import polars as pl

from nsys2prv.families.columns_read import read_columns
from nsys2prv.families.family import Family
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.source import FamilyOptions, Slice, Source
from nsys2prv.families.source_tables import SourceTables
from nsys2prv.pipeline.extract.background import background_queue
from nsys2prv.pipeline.extract.point_writer import PointWriter
from nsys2prv.pipeline.extract.report_extraction import ReportExtraction
from nsys2prv.pipeline.extract.report_part import ReportPart, Storage
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.report.report import open_report
from nsys2prv.report.slicing.slices import Slices, divide, readers
from nsys2prv.report.tables import ReadPiece
from nsys2prv.run.report_summary import Summary


@on_polars_thread
def extract(part: ReportPart) -> Summary:
    """Read a report, or part of it, store the points of its families, and summarize it.

    Raises ReportError, OutputError.
    """
    part = _with_own_files(part)
    families = [f for f in FAMILIES if f.name in (*part.families, *part.wanted.anchors)]
    others = [f for f in FAMILIES if f.name in part.of_report]
    read = partial(read_columns, ranges=part.wanted.named_range is not None, beside=others)
    with open_report(part.path) as report, readers(left=1) as threads, _scratch(part.storage) as folder:
        tables = SourceTables(report, read(families), tuple(read_columns(others)), part.limits)
        source = Source(tables, _options(part))
        sliced = [f for f in families if f.sliced]
        # A single thread has the core that makes the frames.
        with background_queue(own_thread=pl.thread_pool_size() > 1) as queue:
            extraction = ReportExtraction(part, source, queue, PointWriter(part, source.slots))
            slices = divide(report, read(sliced), folder, part.limits)
            if slices is None:
                source.go_on_to(Slice(), _ahead(source, threads))
                extraction.look_up_range()
                _extract_whole(extraction, families)
            else:
                _extract_slices(extraction, sliced, slices, threads)
                source.go_on_to(Slice(), {})
                tables.counted = frozenset(slices.tables)
                _extract_whole(extraction, [f for f in families if f not in sliced])
            # Meanwhile the queue makes the last points.
            extraction.read_identity()
        if not part.wanted.points:
            extraction.keep_metrics()
        return extraction.summary()


def _options(part: ReportPart) -> FamilyOptions:
    """Return the options of a part that change the frames of families."""
    drawing, wanted = part.drawing, part.wanted
    return FamilyOptions(
        rules=drawing.rules,
        reduction=drawing.reduction,
        anchors=bool(wanted.anchors),
        wait_calls=wanted.wait_calls,
        pthreads_apart=drawing.pthreads_apart,
    )


def _with_own_files(part: ReportPart) -> ReportPart:
    """Give a part file names that no other attempt at it has: a worker taken for lost may still be writing."""
    return replace(part, storage=part.storage.named(f"{part.storage.name}.{uuid4().hex}"))


@contextmanager
def _scratch(storage: Storage) -> Iterator[Path]:
    """Yield the path of a folder for slices of the report. It does not exist yet, and is removed at the end."""
    beside = storage.folder or storage.scratch
    if beside is None:
        with TemporaryDirectory(prefix="nsys2prv-") as empty:
            yield Path(empty) / "slices"
        return
    folder = beside / f"{storage.name}.slices"
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ahead(source: Source, threads: ThreadPoolExecutor) -> dict[str, ReadPiece]:
    """Begin to read the tables of a whole report, in the order in which families need them."""
    report, columns = source.report, source.tables.columns
    together = report.tables_together(columns)
    if together is not None:
        return {name: frame.clone for name, frame in together.items()}
    # A single thread would share the core of the work on the tables: reading ahead would only hold them longer.
    if pl.thread_pool_size() == 1:
        return {}
    return {t.name: threads.submit(report.table, t, names).result for t, names in columns.items() if report.has(t)}


def _extract_whole(extraction: ReportExtraction, families: Sequence[Family]) -> None:
    """Extract families from the whole report, forgetting each table after the last family that reads it."""
    for n, family in enumerate(families):
        extraction.extract_family(family)
        for table in family.reads:
            if not any(table in later.reads for later in families[n + 1 :]):
                extraction.source.tables.release(table)


def _extract_slices(
    extraction: ReportExtraction, families: Sequence[Family], slices: Slices, threads: ThreadPoolExecutor
) -> None:
    """Extract families from a large report slice by slice, reading the next slice meanwhile."""
    source = extraction.source
    ahead: dict[str, ReadPiece] = {}
    for number in range(slices.count):
        present = Slice(number, number == slices.count - 1, slices.until(number), slices.range_counts)
        source.go_on_to(present, ahead or _read(slices, 0, threads))
        ahead = {} if present.last else _read(slices, number + 1, threads)
        extraction.look_up_range()
        for family in families:
            extraction.extract_family(family)


def _read(slices: Slices, number: int, threads: ThreadPoolExecutor) -> dict[str, ReadPiece]:
    """Begin to read the tables of one slice."""
    return {t.name: threads.submit(slices.table, t, number).result for t in slices.tables}

"""NVTX events of a report, piece by piece; their numbers, for the families that draw them, where they are not drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

import polars as pl

from nsys2prv.families.nccl.nccl_calls import is_call
from nsys2prv.families.nvtx_events import NVTX_READS, NvtxEvents, from_profiler, read_nvtx_events
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.report import schema
from nsys2prv.report.report import Report


class NvtxCounts(NamedTuple):
    """Numbers of rows: NCCL's calls, its operations on the device, samples of Python stacks, other ranges and marks."""

    calls: int
    operations: int
    samples: int
    ranges: int


# Four families ask for each report, and its table of NVTX events may be the largest: it is read once.
_known: WeakKeyDictionary[Report, NvtxCounts] = WeakKeyDictionary()


def nvtx_counts(report: Report, limits: Limits = DEFAULT_LIMITS) -> NvtxCounts:
    """Count the NVTX events of a report by what they are, piece by piece."""
    if report not in _known:
        parts = [_counted(rows) for rows in nvtx_pieces(report, limits)]
        _known[report] = NvtxCounts(*map(sum, zip(*parts, strict=True))) if parts else NvtxCounts(0, 0, 0, 0)
    return _known[report]


def nvtx_pieces(report: Report, limits: Limits) -> Iterator[NvtxEvents]:
    """Yield the NVTX events of a report. Each piece is read with all names of domains, wherever these stand."""
    columns = NVTX_READS[schema.NVTX]
    size = limits.piece_rows(len(columns))
    naming = report.pieces(schema.NVTX, columns, size, equal={"eventType": (schema.DOMAIN_NAME,)})
    names = [read() for read in naming]
    others = {t: report.table(t, read) for t, read in NVTX_READS.items() if t is not schema.NVTX}
    for read in report.pieces(schema.NVTX, columns, size):
        rows = read().filter(pl.col("eventType") != schema.DOMAIN_NAME)
        yield read_nvtx_events({**others, schema.NVTX: pl.concat([*names, rows])}.__getitem__, report.strings)


def _counted(rows: NvtxEvents) -> NvtxCounts:
    events = rows.ranges
    calls, samples = (events.select(kind.sum()).item() or 0 for kind in (is_call(), from_profiler()))
    others = events.filter(~is_call() & ~from_profiler()).height
    return NvtxCounts(calls, rows.operations.height, samples, others)

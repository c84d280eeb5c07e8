"""Numbers of NVTX events in a report, for the families that draw them, where they are not drawn."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

from nsys2prv.families.nccl.nccl_calls import is_call
from nsys2prv.families.nccl_rows import nvtx_rows_of
from nsys2prv.families.relations import from_profiler
from nsys2prv.report.report import Report


class NvtxCounts(NamedTuple):
    """Numbers of rows: NCCL's calls, its operations on the device, samples of Python stacks, other ranges and marks."""

    calls: int
    operations: int
    samples: int
    ranges: int


# Four families ask for each report, and its table of NVTX events may be the largest: it is read once.
_known: WeakKeyDictionary[Report, NvtxCounts] = WeakKeyDictionary()


def nvtx_counts(report: Report) -> NvtxCounts:
    """Count the NVTX events of a report by what they are."""
    if report not in _known:
        events, operations = nvtx_rows_of(report)
        calls, samples = (events.select(kind.sum()).item() for kind in (is_call(), from_profiler()))
        others = events.filter(~is_call() & ~from_profiler()).height
        _known[report] = NvtxCounts(calls or 0, operations.height, samples or 0, others)
    return _known[report]

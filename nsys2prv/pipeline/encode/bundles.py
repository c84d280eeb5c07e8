"""Runs of many reports: lines of a few reports at a time, merged before windows are made of all.

A window takes one to two milliseconds for each spill that it has points of, however few those are: the windows of 384
reports took fifteen times as long as those of eight that held as much. With bundles, a spill is read once for
each window of its bundle, and a window is made of bundles.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.encode.encode import WindowCounts, merged_lines
from nsys2prv.pipeline.encode.encoding_input import Bundles, EncodingInput
from nsys2prv.pipeline.store.points import Points
from nsys2prv.pipeline.store.saved_plan import read_saved
from nsys2prv.pipeline.store.spill import SpillOf, write_spill
from nsys2prv.pipeline.workers.maps import Workers, map_ahead
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.run.clocks import Clock
from nsys2prv.run.encoding_windows import spills_of, window_borders
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Spill

# Times of the trace as they are.
_AS_IT_IS = Clock(0, 0)


class BundleWindow(NamedTuple):
    """A window of a bundle, merged at a time: reports [first, end), in [low, high) of the trace (ns)."""

    first: int
    end: int
    low: int
    high: int


class Merged(NamedTuple):
    """Lines of such a window, in a file if there are any, and their counts."""

    spill: Spill | None
    counted: WindowCounts


def merge_reports(encoding: EncodingInput, workers: Workers, size: int) -> tuple[Bundles | None, list[WindowCounts]]:
    """Merge reports into bundles, and return these with counts; None without need of bundles.

    Bundles go to files, and the points that are in them are removed. `size`: bytes of the trace, not compressed.
    Raises OutputError.
    """
    windows = bundle_windows(encoding.plan, workers, size)
    if not windows:
        return None, []
    merged = list(workers.progress.track("merging reports", _merge(encoding, windows, workers), len(windows)))
    spills = tuple(m.spill for m in merged if m.spill is not None)
    # Merged spills have many batches, and so their indices show better than those of points how lines spread in time.
    borders = window_borders(((spill, _AS_IT_IS) for spill in spills), workers.limits, together=2)
    return Bundles(spills, borders), [m.counted for m in merged]


def bundle_windows(plan: Plan, workers: Workers, size: int) -> list[BundleWindow]:
    """List the windows of each bundle: none if windows of the trace have few spills each, or the disk lacks space."""
    limits = workers.limits
    windows_of_trace, spills = len(plan.borders) - 1, sum(len(s.spills) for s in plan.summaries)
    if _spill_reads(plan) <= max(limits.window_spills * windows_of_trace, 2 * spills):
        return []
    if shutil.disk_usage(workers.folder).free < size * (1 + limits.line_bytes):
        return []
    windows: list[BundleWindow] = []
    for first, end in bundles([len(s.spills) for s in plan.summaries], limits):
        borders = window_borders(spills_of(plan.summaries[first:end], plan.clocks[first:end]), limits).tolist()
        windows += [BundleWindow(first, end, low, high) for low, high in pairwise(borders)]
    return windows


def _spill_reads(plan: Plan) -> int:
    """Count the reads of spills over all windows."""
    inner, count = plan.borders[1:-1], 0
    for spill, clock in spills_of(plan.summaries, plan.clocks):
        first, last = np.searchsorted(inner, clock.merged(np.array([spill.first[0], spill.last[-1]])), side="right")
        count += int(last - first) + 1
    return count


def bundles(spills: Sequence[int], limits: Limits) -> Iterator[tuple[int, int]]:
    """Yield first and end of the reports of each bundle, by the number of spills of each report."""
    most = max(limits.bundle_spills, sum(spills) // limits.bundles)
    first = held = 0
    for n, count in enumerate(spills):
        if held and held + count > most:
            yield first, n
            first, held = n, 0
        held += count
    yield first, len(spills)


def _merge(encoding: EncodingInput, windows: Sequence[BundleWindow], workers: Workers) -> Iterator[Merged]:
    """Merge windows, here or by workers, and remove the points of each bundle that is complete."""
    work = [(window, workers.folder / f"bundle{n}.arrow") for n, window in enumerate(windows)]
    if workers.count == 1:
        results: Iterator[Merged] = map_ahead(partial(_merged, encoding, workers.limits), work)
    else:
        saved = workers.folder / "to-merge"
        encoding.save(saved)
        results = workers.map(partial(_merged_by_worker, saved, workers.limits), work)
    for n, (window, result) in enumerate(zip(windows, results, strict=True)):
        yield result
        if n + 1 == len(windows) or windows[n + 1].first != window.first:
            for spill in chain.from_iterable(s.spills for s in encoding.plan.summaries[window.first : window.end]):
                spill.path.unlink(missing_ok=True)


def _merged_by_worker(saved: Path, limits: Limits, work: tuple[BundleWindow, Path]) -> Merged:
    return _merged(read_saved(saved), limits, work)


@on_polars_thread
def _merged(encoding: EncodingInput, limits: Limits, work: tuple[BundleWindow, Path]) -> Merged:
    """Merge one window into a file. Raises OutputError."""
    (first, end, low, high), path = work
    lines, counted = merged_lines(encoding, range(first, end), low, high)
    if lines.is_empty():
        return Merged(None, counted)
    spill = write_spill(path, SpillOf("lines", ""), Points(lines), limits.batch_rows, compression="lz4")
    return Merged(spill, counted)

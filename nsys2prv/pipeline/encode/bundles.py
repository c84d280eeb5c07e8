"""Runs of many reports: lines of a few reports at a time, merged before windows are made of all.

A window takes one to two milliseconds for each spill that it has points of, however few those are: the windows of 384
reports took fifteen times as long as those of eight that held as much. Merged in bundles first, a spill is looked at as
often as its bundle has windows, and a window is made of bundles.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nsys2prv.pipeline.encode.encode import Encoded, merged_lines
from nsys2prv.pipeline.store.combinations import Points
from nsys2prv.pipeline.store.spill import write_spill
from nsys2prv.pipeline.workers.maps import Map, map_ahead
from nsys2prv.pipeline.workers.partial_files import replacing
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.pipeline.workers.progress import Progress
from nsys2prv.run.clocks import Clock
from nsys2prv.run.plan import Plan, spills_of, window_borders
from nsys2prv.run.report_summary import Spill
from nsys2prv.run.saved_plan import plan_at, save_plan

# Spills of a bundle, about, and how many bundles there are at most: their lines are looked at in every window.
BUNDLE_SPILLS, MOST_BUNDLES = 48, 128
# Spills that windows are made of, from which on bundles are worth while: eight reports take as long without.
MOST_SPILLS = 96
# Bytes that lines of bundles take for each byte of the trace, at most (real runs 0.4; 0.2 where ranks are copies).
LINE_BYTES = 1.0
# Times of the trace as they are.
_AS_IT_IS = Clock(0, 0)


class Part(NamedTuple):
    """What is merged at a time: reports `first` to `end`, in [low, high) of the trace (ns)."""

    first: int
    end: int
    low: int
    high: int


class Merged(NamedTuple):
    """Lines of a part, in a file if there are any, and what was counted over them."""

    spill: Spill | None
    counted: Encoded


def merge_reports(
    plan: Plan, folder: Path, mapped: Map[Any, Any], jobs: int, size: int, progress: Progress
) -> tuple[Plan, list[Encoded]]:
    """The plan of windows that are made of bundles, and what merging counted; the plan as it is where none are needed.

    Bundles go to files in `folder`, from which the points that are in them are removed. `jobs`: how many workers
    `mapped` has; `size`: bytes of the trace, not compressed. Raises OutputError.
    """
    parts = parts_of(plan, folder, size)
    if not parts:
        return plan, []
    merged = list(progress.track("merging reports", _merge(plan, parts, folder, mapped, jobs), len(parts)))
    spills = tuple(m.spill for m in merged if m.spill is not None)
    # They tell better than spills of points, which have a few batches each, how much lies where in time.
    borders = window_borders(((spill, _AS_IT_IS) for spill in spills), together=2)
    summaries = tuple(summary._replace(spills=()) for summary in plan.summaries)
    return plan._replace(summaries=summaries, bundles=spills, borders=borders), [m.counted for m in merged]


def parts_of(plan: Plan, folder: Path, size: int) -> list[Part]:
    """What to merge, bundle by bundle; nothing where windows have few spills each, or the disk no room for lines."""
    windows, spills = len(plan.borders) - 1, sum(len(s.spills) for s in plan.summaries)
    if _looks(plan) <= max(MOST_SPILLS * windows, 2 * spills):
        return []
    if shutil.disk_usage(folder).free < size * (1 + LINE_BYTES):
        return []
    parts: list[Part] = []
    for first, end in bundles([len(s.spills) for s in plan.summaries]):
        borders = window_borders(spills_of(plan.summaries[first:end], plan.clocks[first:end])).tolist()
        parts += [Part(first, end, low, high) for low, high in pairwise(borders)]
    return parts


def _looks(plan: Plan) -> int:
    """How many spills all windows together are made of."""
    inner, count = plan.borders[1:-1], 0
    for spill, clock in spills_of(plan.summaries, plan.clocks):
        first, last = np.searchsorted(inner, clock.merged(np.array([spill.first[0], spill.last[-1]])), side="right")
        count += int(last - first) + 1
    return count


def bundles(spills: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and end of the reports of each bundle, by how many spills each report has."""
    most = max(BUNDLE_SPILLS, sum(spills) // MOST_BUNDLES)
    first = held = 0
    for n, count in enumerate(spills):
        if held and held + count > most:
            yield first, n
            first, held = n, 0
        held += count
    yield first, len(spills)


def _merge(plan: Plan, parts: Sequence[Part], folder: Path, mapped: Map[Any, Any], jobs: int) -> Iterator[Merged]:
    """Merge parts, here or by workers, and remove the points of each bundle that is complete."""
    work = [(part, folder / f"bundle{n}.arrow") for n, part in enumerate(parts)]
    if jobs == 1:
        results: Iterator[Merged] = map_ahead(partial(_merged, plan), work)
    else:
        saved = folder / "plan-of-bundles"
        save_plan(plan, saved)
        results = mapped(partial(_merged_by_worker, saved), work)
    for n, (part, result) in enumerate(zip(parts, results, strict=True)):
        yield result
        if n + 1 == len(parts) or parts[n + 1].first != part.first:
            for spill in chain.from_iterable(s.spills for s in plan.summaries[part.first : part.end]):
                spill.path.unlink(missing_ok=True)


def _merged_by_worker(saved: Path, work: tuple[Part, Path]) -> Merged:
    return _merged(plan_at(saved), work)


@on_polars_thread
def _merged(plan: Plan, work: tuple[Part, Path]) -> Merged:
    """Merge one part into a file. Raises OutputError."""
    (first, end, low, high), path = work
    lines, counted = merged_lines(plan, range(first, end), low, high)
    if lines.is_empty():
        return Merged(None, counted)
    with replacing(path) as beside:
        spill = write_spill(beside, "lines", "", Points(lines), (), compression="lz4")
    return Merged(spill._replace(path=path), counted)

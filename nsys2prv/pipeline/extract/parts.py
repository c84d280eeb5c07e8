"""Division of a large report among several processes, some families each, and the merge of their summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from nsys2prv.errors import ReportError
from nsys2prv.families.columns_read import read_columns
from nsys2prv.families.family import Family
from nsys2prv.families.registry import FAMILIES
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.extract.report_part import ReportPart
from nsys2prv.pipeline.workers.input_size import input_size
from nsys2prv.report import schema
from nsys2prv.report.report import Report, open_report
from nsys2prv.run.report_summary import Spill, Summary

# Number of parts of the families that share tables, if there are two workers' cores for each part: every part reads
# the columns that it needs of those tables.
SHARING_PARTS, CORES_EACH = 3, 2


def divided(paths: Sequence[Path], families: Sequence[str], jobs: int, limits: Limits) -> dict[Path, list[list[str]]]:
    """Divide the families of each report into parts: several if a report is more than a worker's share."""
    whole, size = [list(families)], max(input_size(paths), 1)
    workers = {p: jobs * input_size([p]) / size for p in paths}
    return {p: _parts(p, families, own, limits) if jobs > 1 and own > 1 else whole for p, own in workers.items()}


def _parts(path: Path, names: Sequence[str], workers: float, limits: Limits) -> list[list[str]]:
    """Divide families among so many workers: families without shared tables, and with many workers also others.

    The first part has the families that are too small for a part of their own.
    """
    groups = _apart([f for f in FAMILIES if f.name in names])
    try:
        with open_report(path) as report:
            sizes = [_size(report, group) for group in groups]
            large = [g for g, size in zip(groups, sizes, strict=True) if size > limits.least_part * sum(sizes)]
            several = workers >= CORES_EACH * (len(large) - 1 + SHARING_PARTS)
            parts = [part for group in large for part in (_spread(report, group) if several else [group])]
    except ReportError:
        # The error is raised when the report is read.
        return [list(names)]
    found = [[f.name for f in part] for part in parts]
    rest = [name for name in names if not any(name in part for part in found)]
    return [[*rest, *(found[0] if found else [])], *found[1:]]


def _size(report: Report, families: Sequence[Family]) -> int:
    """Count the values that are read for these families."""
    return sum(report.rows_at_most(t) * len(c) for t, c in read_columns(families).items() if report.has(t))


def _spread(report: Report, group: Sequence[Family]) -> list[list[Family]]:
    """Divide families that share tables into parts with about equal amounts to read, in order of first families."""
    parts: list[list[Family]] = [[] for _ in range(SHARING_PARTS)]
    for unit in sorted(_naming_alike(group), key=lambda unit: _size(report, unit), reverse=True):
        least = min(parts, key=lambda part: _size(report, [*part, *unit]))
        least += unit
    return _in_order(parts)


def _apart(families: Sequence[Family]) -> list[list[Family]]:
    """Group families so that no two groups share a table of events, in order of their first families.

    One group has the tables of ranges and of anchors: a part may look for these beside its families.
    """
    looked_up: set[object] = {schema.NVTX, *(t for f in FAMILIES if f.anchors for t in f.reads)}
    return _connected(families, lambda f: {t for t in read_columns([f]) if t.time}, looked_up)


def _naming_alike(families: Sequence[Family]) -> list[list[Family]]:
    """Group families so that no two groups share an event type: a single part numbers its texts.

    Families that read a large report whole are in one group: memory suffices for one of them at a time.
    """
    return _connected(families, lambda f: {*f.emits, *(() if f.sliced else ("whole",))}, set())


def _connected(
    families: Sequence[Family], held_by: Callable[[Family], set[object]], of_one: set[object]
) -> list[list[Family]]:
    """Group families so that no item is in two groups. All families with an item of `of_one` are in one group."""
    groups: list[tuple[list[Family], set[object]]] = [([], of_one)]
    for family in families:
        own = held_by(family)
        meeting = [group for group in groups if group[1] & own]
        members = [f for group, _ in meeting for f in group]
        joined = ([*members, family], own.union(*(held for _, held in meeting)))
        groups = [joined, *(group for group in groups if group not in meeting)]
    return _in_order([members for members, _ in groups])


def _in_order(groups: Sequence[Sequence[Family]]) -> list[list[Family]]:
    """Sort the groups that are not empty by their first families."""
    order = {f.name: n for n, f in enumerate(FAMILIES)}
    sorted_groups = [sorted(group, key=lambda f: order[f.name]) for group in groups if group]
    return sorted(sorted_groups, key=lambda group: order[group[0].name])


def parts_of(whole: ReportPart, families: Sequence[Sequence[str]]) -> list[ReportPart]:
    """Divide a whole report by the families of each part. The first has the named range and other families' anchors."""
    if len(families) == 1:
        return [whole]
    parts = []
    for n, names in enumerate(families):
        others = [f for f in whole.families if f not in names]
        anchors = tuple(f for f in whole.wanted.anchors if f in names or (n == 0 and f not in others))
        wanted = replace(whole.wanted, anchors=anchors, named_range=whole.wanted.named_range if n == 0 else None)
        storage = whole.storage.named(f"{whole.storage.name}.part{n}")
        parts.append(replace(whole, families=tuple(names), of_report=whole.families, storage=storage, wanted=wanted))
    return parts


def summary_of_parts(parts: Sequence[Summary]) -> Summary:
    """Merge the summaries of a report's parts. Each part has its own numbers."""
    if len(parts) == 1:
        return parts[0]
    places = _offsets([p.places.height for p in parts])
    slots = _offsets([len(p.slots) for p in parts])
    members = _offsets([p.members.height for p in parts])

    def moved(spill: Spill, n: int) -> Spill:
        return spill._replace(places=places[n], slots=slots[n], members=members[n])

    return parts[0]._replace(
        places=_numbered_on([p.places for p in parts], "id", places),
        uses=_numbered_on([p.uses for p in parts], "place", places),
        edges=_numbered_on([p.edges for p in parts], "place", places),
        members=_numbered_on([p.members for p in parts], "id", members),
        slots=tuple(slot for p in parts for slot in p.slots),
        rows_by_type=_summed([p.rows_by_type for p in parts]),
        labels={key: texts for p in parts for key, texts in p.labels.items()},
        preferred={key: number for p in parts for key, number in p.preferred.items()},
        spills=tuple(moved(spill, n) for n, p in enumerate(parts) for spill in p.spills),
        operation_ends=tuple(moved(spill, n) for n, p in enumerate(parts) for spill in p.operation_ends),
        wait_calls=tuple(moved(spill, n) for n, p in enumerate(parts) for spill in p.wait_calls),
        analyzed=tuple(moved(spill, n) for n, p in enumerate(parts) for spill in p.analyzed),
        metrics=tuple(one._replace(place=one.place + places[n]) for n, p in enumerate(parts) for one in p.metrics),
        anchors=pl.concat(p.anchors for p in parts),
        memory_peaks={place + places[n]: peak for n, p in enumerate(parts) for place, peak in p.memory_peaks.items()},
        numbered=max((p.numbered for p in parts), key=lambda found: found.totals.height),
        counts={f.name: p.counts[f.name] for f in FAMILIES for p in parts if f.name in p.counts},
        launches={kind: calls for p in parts for kind, calls in p.launches.items()},
        working=next((p.working for p in parts if p.working is not None), None),
        remarks=tuple(dict.fromkeys(remark for p in parts for remark in p.remarks)),
    )


def _offsets(lengths: Sequence[int]) -> list[int]:
    return [sum(lengths[:n]) for n in range(len(lengths))]


def _numbered_on(frames: Sequence[pl.DataFrame], column: str, offsets: Sequence[int]) -> pl.DataFrame:
    """Concatenate frames, adding each frame's offset to the numbers in a column."""
    number = pl.col(column)
    return pl.concat(f.with_columns((number + o).cast(f.schema[column])) for f, o in zip(frames, offsets, strict=True))


def _summed(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    keys = dict.fromkeys(key for one in counts for key in one)
    return {key: sum(one.get(key, 0) for one in counts) for key in keys}

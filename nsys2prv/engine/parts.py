"""A large report as the work of several processes: families that share no table, and one summary of what they found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from nsys2prv.activities import FAMILIES, Family
from nsys2prv.activities.anchors import READS as ANCHOR_READS
from nsys2prv.activities.reads import read_columns
from nsys2prv.engine.resources import input_size
from nsys2prv.engine.task import ExtractTask
from nsys2prv.errors import ReportError
from nsys2prv.merge.summary import Spill, Summary
from nsys2prv.report import schema
from nsys2prv.report.report import open_report
from nsys2prv.report.schema import Table

# Families whose tables are less than this part of the report are no work of their own.
LEAST_PART = 0.05


def divided(paths: Sequence[Path], families: Sequence[str], jobs: int) -> dict[Path, list[list[str]]]:
    """Names of families by report, as parts: several for a report that is more than a worker's share of the run."""
    share = input_size(paths) / jobs
    whole = [list(families)]
    return {p: _parts(p, families) if jobs > 1 and input_size([p]) > share else whole for p in paths}


def _parts(path: Path, names: Sequence[str]) -> list[list[str]]:
    """Families that share no table, where their tables are a part worth while; the others are in the first part."""
    groups = _apart([f for f in FAMILIES if f.name in names])
    try:
        with open_report(path) as report:
            sizes = [
                sum(report.rows_at_most(t) * len(c) for t, c in read_columns(group).items() if report.has(t))
                for group in groups
            ]
    except ReportError:
        # It is told of when it is read.
        return [list(names)]
    large = [n for n, size in enumerate(sizes) if size > LEAST_PART * sum(sizes)]
    first = large[0] if large else 0
    others = [n for n in large if n != first]
    rest = [f.name for n, group in enumerate(groups) if n not in others for f in group]
    return [rest, *([f.name for f in groups[n]] for n in others)]


def _apart(families: Sequence[Family]) -> list[list[Family]]:
    """Families in groups that share no table of events, in order of their first ones.

    What is asked for beside families, of clocks and ranges, is found in tables of one group.
    """
    together: list[tuple[list[Family], set[Table]]] = [([], {schema.NVTX, *ANCHOR_READS})]
    for family in families:
        tables = {t for t in read_columns([family]) if t.time}
        meeting = [group for group in together if group[1] & tables]
        members = [f for own, _ in meeting for f in own]
        joined = ([*members, family], tables.union(*(held for _, held in meeting)))
        together = [joined, *(group for group in together if group not in meeting)]
    order = {f.name: n for n, f in enumerate(FAMILIES)}
    return sorted((own for own, _ in together if own), key=lambda own: min(order[f.name] for f in own))


def tasks_of(task: ExtractTask, parts: Sequence[Sequence[str]]) -> list[ExtractTask]:
    """The task of a report as one of each part. What is asked for beside families is the first one's."""
    if len(parts) == 1:
        return [task]
    tasks = [
        task._replace(families=tuple(names), beside=task.families, name=f"{task.name}.part{n}")
        for n, names in enumerate(parts)
    ]
    return [tasks[0], *(t._replace(anchors=False, ranges=()) for t in tasks[1:])]


def together(parts: Sequence[Summary]) -> Summary:
    """The summary of a report from those of its parts, each of which has numbers of its own."""
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
        used=_summed([p.used for p in parts]),
        labels={key: texts for p in parts for key, texts in p.labels.items()},
        preferred={key: number for p in parts for key, number in p.preferred.items()},
        spills=tuple(moved(spill, n) for n, p in enumerate(parts) for spill in p.spills),
        ends=tuple(moved(spill, n) for n, p in enumerate(parts) for spill in p.ends),
        counts={f.name: p.counts[f.name] for f in FAMILIES for p in parts if f.name in p.counts},
        remarks=tuple(dict.fromkeys(remark for p in parts for remark in p.remarks)),
    )


def _offsets(lengths: Sequence[int]) -> list[int]:
    return [sum(lengths[:n]) for n in range(len(lengths))]


def _numbered_on(frames: Sequence[pl.DataFrame], column: str, offsets: Sequence[int]) -> pl.DataFrame:
    """Frames one below the other, with the numbers in a column those of all parts."""
    number = pl.col(column)
    return pl.concat(f.with_columns((number + o).cast(f.schema[column])) for f, o in zip(frames, offsets, strict=True))


def _summed(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    keys = dict.fromkeys(key for one in counts for key in one)
    return {key: sum(one.get(key, 0) for one in counts) for key in keys}

"""The pause that starves devices most: between which activities it lies, and in which range of the host."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.functions_of_hosts import Seen, seen_functions
from nsys2prv.analysis.facts.starved import idle_gaps
from nsys2prv.analysis.facts.thresholds import NEARLY_ALL, ONE_PLACE, PART_PLACE
from nsys2prv.analysis.frames import tasks_of_devices
from nsys2prv.analysis.idle.idle_gaps import activities_around, open_ranges
from nsys2prv.errors import short
from nsys2prv.families.nvtx.range_patterns import pattern_of
from nsys2prv.intervals.spans import Spans, union


class Pause(NamedTuple):
    """Idle times of devices between two activities: their names, and the innermost range that is mostly open.

    `range`: empty without one; `share`: of the time without launched work; `spans`: these times (ns of the trace).
    """

    after: str
    before: str
    range: str
    share: float
    spans: Spans


class Places(NamedTuple):
    """The places of time without launched work: the chief pause (None: at many places), the range with most of it."""

    pause: Pause | None
    range: str


def chief_pause(case: Case, covered: Spans) -> Pause | None:
    """Return where at least half of the time without launched work lies; None where it lies at many places.

    `covered`: the time that counts (ns of the trace).
    """
    return _chief(case, _gaps(case, covered), ONE_PLACE.value)


def places_of_launches(case: Case, covered: Spans, pause_ns: float) -> Places:
    """Return where a host that launches too slowly loses most.

    Idle times of `pause_ns` or more are a pause where they have PART_PLACE of the time.
    """
    gaps = _gaps(case, covered)
    return Places(_chief(case, gaps, PART_PLACE.value, pause_ns), _range(case, gaps))


def _chief(case: Case, gaps: pl.DataFrame, least_share: float, pause_ns: float = 0) -> Pause | None:
    """Return the place with most of the idle times of `pause_ns` or more; None if its share of all is too small."""
    total = int(gaps["ns"].sum())
    gaps = gaps.filter(pl.col("ns") >= pause_ns)
    by_place = gaps.group_by("after", "before").agg(pl.col("ns").sum()).sort("ns", "after", "before")
    if by_place.is_empty() or by_place["ns"][-1] < least_share * total:
        return None
    after, before, ns = by_place.row(-1)
    own = gaps.filter(pl.col("after") == after, pl.col("before") == before)
    start, length = (own[c].to_numpy() for c in ("start", "ns"))
    return Pause(after, before, _range(case, own), ns / total, union(start, start + length))


def seen_in_pause(case: Case, pause: Pause | None, covered: Spans) -> Seen:
    """Return what samples say of hosts in a pause; without one, in all the time that it was sought in, `covered`."""
    return seen_functions(case, pause.spans if pause else covered)


def pause_text(pause: Pause | None) -> str:
    """Return where to look for what the host does, to follow a verb; nothing where it does that at many places."""
    if pause is None:
        return ""
    place = f" in `{short(pause.range, 40)}`" if pause.range else ""
    share = "nearly all" if pause.share >= NEARLY_ALL.value else f"{100 * pause.share:.0f} %"
    return f"{place} after `{short(pause.after, 40)}` and before `{short(pause.before, 40)}` ({share} of that time)"


def _gaps(case: Case, covered: Spans) -> pl.DataFrame:
    """Return task, start, `ns`, `after` and `before` of each idle time without launched work between two activities."""
    axis, _, found = idle_gaps(case.analysis, covered)
    start = found["start"].to_numpy()
    around = activities_around(case.run.work, axis, found["end"].to_numpy())
    times = {"start": axis.time(start), "ns": found["until"].to_numpy() - start}
    placed = pl.DataFrame(times).with_columns(tasks_of_devices(case.run).gather(axis.group(start)))
    return placed.hstack(around).drop_nulls(["after", "before"]).filter(pl.col("ns") > 0)


def _range(case: Case, gaps: pl.DataFrame) -> str:
    """Return the text of the innermost range, with `#` for numbers, that is open in most of some idle times.

    The range of an iteration says nothing: empty for it.
    """
    numbered = gaps.sort("task", "start").with_row_index("gap").with_columns(end=pl.col("start") + pl.col("ns"))
    ranges = open_ranges(numbered, case.analysis.main_ranges).join(numbered.select("gap", "ns"), on="gap")
    by_text = ranges.group_by(text=pattern_of(pl.col("range"))).agg(pl.col("ns").sum()).sort("ns", "text")
    mostly = by_text.filter(
        pl.col("ns") >= ONE_PLACE.value * int(gaps["ns"].sum()),
        pl.col("text").ne_missing(pl.lit(case.analysis.iteration_pattern)),
    )
    return "" if mostly.is_empty() else str(mostly["text"][-1])

"""The idle time that starves devices most: between which activities it lies, and in which range of the host."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.activity_names import activity
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen, seen_functions
from nsys2prv.analysis.facts.thresholds import FEWEST_SAMPLES, NEARLY_ALL, ONE_PLACE, PART_PLACE, RUNS_THERE
from nsys2prv.analysis.frames import tasks_of_devices
from nsys2prv.analysis.idle.idle_gaps import activities_around, ranges_in_gaps
from nsys2prv.families.nvtx.range_patterns import pattern_of
from nsys2prv.intervals.spans import Spans, union
from nsys2prv.model.words import short


class ChiefGap(NamedTuple):
    """Idle times of devices between two activities: the names of these, and the innermost range for most of it.

    `range`: empty without one; `share`: their part (of 1) of the time without launched work; `spans`: the idle times in
    ns of the trace.
    """

    after: str
    before: str
    range: str
    share: float
    spans: Spans


class IdlePlaces(NamedTuple):
    """The places where devices have no launched work: the gap (None: many); without one, the range with most of it."""

    gap: ChiefGap | None
    range: str


def chief_gap(case: Case, covered: Spans) -> ChiefGap | None:
    """Return where at least half of the time without launched work lies; None where it lies at many places.

    `covered`: the time that counts (ns of the trace).
    """
    return _chief(case, _gaps(case, covered), ONE_PLACE.value)


def chief_gap_of_long(case: Case) -> ChiefGap | None:
    """Return where at least half of the time without launched work lies that long iterations have more than others.

    What launches leave between them in each iteration makes none of them long.
    """
    long, usual = (_gaps(case, covered) for covered in (case.long_steps.spans, case.usual_time()))
    count = case.long_steps.found.height
    others = max(case.long_steps.lengths.height - count, 1)
    by_place = usual.group_by("after", "before").agg(usual=pl.col("ns").sum() * count / others)
    return _chief(case, long, ONE_PLACE.value, usual=by_place)


def idle_places(case: Case, covered: Spans, long_ns: float) -> IdlePlaces:
    """Return where a host that launches too slowly loses most.

    Idle times of `long_ns` or more between the same activities count where they have PART_PLACE of the time.
    """
    gaps = _gaps(case, covered)
    chief = _chief(case, gaps, PART_PLACE.value, long_ns)
    return IdlePlaces(chief, _range(case, gaps) if chief is None else "")


def _chief(
    case: Case, gaps: pl.DataFrame, least_share: float, least_ns: float = 0, usual: pl.DataFrame | None = None
) -> ChiefGap | None:
    """Return the place with most of the idle times of `least_ns` or more; None if its share of all is too small.

    `usual`: by place (after, before) how much of them (ns) does not count, as it comes in other iterations, too.
    """
    place = ["after", "before"]
    known = pl.DataFrame(schema=dict.fromkeys(place, pl.String) | {"usual": pl.Float64}) if usual is None else usual
    sums = gaps.group_by(place).agg(all=pl.col("ns").sum(), ns=pl.col("ns").filter(pl.col("ns") >= least_ns).sum())
    more = (pl.col("all", "ns") - pl.col("usual").fill_null(0)).clip(lower_bound=0)
    by_place = sums.join(known, on=place, how="left").select(*place, more).sort("ns", *place)
    total = float(by_place["all"].sum())
    gaps = gaps.filter(pl.col("ns") >= least_ns)
    if by_place.is_empty() or by_place["ns"][-1] < max(least_share * total, 1):
        return None
    after, before, _, ns = by_place.row(-1)
    between = gaps.filter(pl.col("after") == after, pl.col("before") == before)
    start, length = (between[c].to_numpy() for c in ("start", "ns"))
    return ChiefGap(after, before, _range(case, between), ns / total, union(start, start + length))


def seen_in_gap(case: Case, gap: ChiefGap | None, covered: Spans) -> Seen:
    """Return what samples say of hosts in a gap; without one, in all the time that it was sought in, `covered`.

    So they do where a gap with most of that time has too few samples, but not where hosts wait in it: then their
    samples are of the rest.
    """
    if gap is None:
        return seen_functions(case, covered)
    seen = seen_functions(case, gap.spans)
    if seen.samples >= FEWEST_SAMPLES.value or gap.share < ONE_PLACE.value:
        return seen
    every = seen_functions(case, covered)
    runs_there = seen.samples >= RUNS_THERE.value * gap.share * every.samples
    return every if runs_there else seen


def where_text(gap: ChiefGap | None) -> str:
    """Return where to look for what the host does, to follow a verb; nothing where it does that at many places."""
    if gap is None:
        return ""
    place = f" in `{short(gap.range, 40)}`" if gap.range else ""
    share = "nearly all" if gap.share >= NEARLY_ALL.value else f"{100 * gap.share:.0f} %"
    between = f"after {activity(gap.after)} and before {activity(gap.before)}"
    if gap.after == gap.before:
        between = f"between {activity(gap.after, one=True)} and the next"
    return f"{place} {between} ({share} of that time)"


def _gaps(case: Case, covered: Spans) -> pl.DataFrame:
    """Return task, start, `ns`, `after` and `before` of each idle time without launched work between two activities."""
    axis, _, found = case.idle_gaps(covered)
    start = found["start"].to_numpy()
    around = activities_around(case.run.work, axis, found["end"].to_numpy())
    times = {"start": axis.time(start), "ns": found["until"].to_numpy() - start}
    placed = pl.DataFrame(times).with_columns(tasks_of_devices(case.run).gather(axis.group(start)))
    return placed.hstack(around).drop_nulls(["after", "before"]).filter(pl.col("ns") > 0)


def _range(case: Case, gaps: pl.DataFrame) -> str:
    """Return the text of the innermost range, with `#` for numbers, for most of some idle times.

    The range of an iteration says nothing: empty for it.
    """
    numbered = gaps.sort("task", "start").with_row_index("gap").with_columns(end=pl.col("start") + pl.col("ns"))
    ranges = ranges_in_gaps(numbered, case.analysis.main_ranges).drop_nulls("range")
    by_text = ranges.group_by(text=pattern_of(pl.col("range"))).agg(pl.col("ns").sum()).sort("ns", "text")
    mostly = by_text.filter(
        pl.col("ns") >= ONE_PLACE.value * int(gaps["ns"].sum()),
        pl.col("text").ne_missing(pl.lit(case.analysis.iteration_pattern)),
    )
    return "" if mostly.is_empty() else str(mostly["text"][-1])

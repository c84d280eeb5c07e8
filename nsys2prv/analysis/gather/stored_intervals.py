"""The intervals that the reports of a run stored for analysis: which there are, how many, and those of a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import TEXT
from nsys2prv.analysis.recording.undrawn import undrawn_tasks
from nsys2prv.families.nvtx.nvtx import FAMILY as NVTX
from nsys2prv.families.registry import FAMILIES
from nsys2prv.intervals.shortest import ends_of
from nsys2prv.intervals.spans import Mask, Span
from nsys2prv.model.event_types import EVENT_TYPES, is_labelled
from nsys2prv.pipeline.store.spill import read_spill
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Spill, Summary
from nsys2prv.run.trace_rows import NO_ROW

# Families of device activity, and of calls, with their kinds.
KINDS: dict[str, str] = {f.name: f.work for f in FAMILIES if f.work}
CALL_KINDS: dict[str, str] = {f.name: f.calls for f in FAMILIES if f.calls}
OS = "os"


class GatheredRows(NamedTuple):
    """Numbers of intervals that `gather` holds in memory: calls and device activities, and NVTX ranges."""

    intervals: int
    ranges: int


def gathered_rows(plan: Plan, span: Span | None = None) -> GatheredRows:
    """Estimate how much `gather` holds in memory, from the times of the batches of intervals."""
    rows = {True: 0.0, False: 0.0}
    for r, summary in enumerate(plan.summaries):
        drawn = _drawn_shares(plan, r)
        for family, spill in analyzed_spills(summary, {f: f for f in (*KINDS, *CALL_KINDS, NVTX.name)}):
            here = 1.0 if span is None else float(_reaching(plan, r, spill, span).mean())
            rows[family == NVTX.name] += spill.rows * here * drawn.get(family, 0.0)
    return GatheredRows(round(rows[False]), round(rows[True]))


def _drawn_shares(plan: Plan, r: int) -> dict[str, float]:
    """Return the share of each family's rows in a report that analysis reads.

    They have a row in the trace; of OS calls those of threads without one count, too, unless their rank is not chosen.
    """
    uses = plan.summaries[r].uses
    place = uses["place"].to_numpy()
    with_row, chosen = plan.objects.row_of[r][place] != NO_ROW, ~plan.objects.unchosen[r][place]
    os_calls = uses["family"].is_in([family for family, kind in CALL_KINDS.items() if kind == OS]).to_numpy()
    drawn = pl.Series(np.where(os_calls, chosen, with_row))
    counted = uses.select("family", "rows", drawn=pl.col("rows") * drawn).group_by("family").sum()
    return {family: here / max(rows, 1) for family, rows, here in counted.rows()}


def spills_of_run(plan: Plan, families: Mapping[str, str]) -> Iterator[tuple[int, str, Spill]]:
    """Yield report, kind and stored intervals of some families over all reports (see `analyzed_spills`)."""
    for r, summary in enumerate(plan.summaries):
        yield from ((r, kind, spill) for kind, spill in analyzed_spills(summary, families))


def analyzed_spills(summary: Summary, families: Mapping[str, str]) -> Iterator[tuple[str, Spill]]:
    """Yield the stored intervals of some families in a report, each with the kind that `families` gives its family."""
    return ((families[spill.family], spill) for spill in summary.analyzed if spill.family in families)


def read_within(plan: Plan, r: int, spill: Spill, span: Span | None) -> pl.DataFrame:
    """Read the batches of a spill of a report with rows that may reach into a time (merged ns; None: all batches)."""
    if span is None:
        return read_spill(spill, range(len(spill.first)))
    wanted = np.flatnonzero(_reaching(plan, r, spill, span))
    if not len(wanted):
        return read_spill(spill, [0]).clear()
    successive = np.split(wanted, np.flatnonzero(np.diff(wanted) > 1) + 1)
    return pl.concat([read_spill(spill, some.tolist()) for some in successive])


def _reaching(plan: Plan, r: int, spill: Spill, span: Span) -> Mask:
    """Return for each batch of a spill whether rows of it may reach into a time (merged ns)."""
    clock = plan.clocks[r]
    # An end is at least 1 ns behind its begin on the merged clock.
    reaching: Mask = (clock.merged(spill.first) < span.end) & (clock.merged(spill.reach) + 1 > span.start)
    return reaching


def merged_intervals(plan: Plan, r: int, spill: Spill, span: Span | None, other: bool = False) -> pl.DataFrame:
    """Return the intervals of a spill that have a row: start, end (merged ns), row, task, report, the spill's columns.

    `other`: instead, intervals of the same processes on threads without a row.
    """
    frame = read_within(plan, r, spill, span)
    row = plan.objects.row_of[r][frame["place"].to_numpy()]
    clock = plan.clocks[r]
    start = clock.merged(frame["time"].to_numpy())
    # As drawn, so that times have an order; `instant` keeps that nothing took the time.
    end = ends_of(start, clock.merged(frame["end"].to_numpy()))
    own = undrawn_tasks(plan, r)[frame["place"].to_numpy()] if other else row
    drawn = own != NO_ROW
    if span is not None:
        drawn &= (end > span.start) & (start < span.end)
    task = own if other else np.where(row != NO_ROW, plan.objects.rows.task[row] - 1, NO_ROW)
    merged = frame.with_columns(
        pl.lit(r, pl.Int64).alias("report"),
        instant=pl.col("end") == pl.col("time"),
        **{c: pl.Series(values) for c, values in (("start", start), ("end", end), ("row", row), ("task", task))},
    )
    return merged if drawn.all() else merged.filter(pl.Series(drawn))


def label_texts(plan: Plan, r: int, key: str, values: pl.Series, kind: pl.DataType = TEXT) -> pl.Series:
    """Look up the labels of an event type, as `kind`, by the report's numbers; `unknown` without a number."""
    if not is_labelled(key):
        return values.replace_strict(dict(EVENT_TYPES[key].values), default="unknown", return_dtype=kind)
    texts = pl.Series(["unknown", *plan.summaries[r].labels.get(key, ())], dtype=kind)
    return texts.gather(values.fill_null(0))


def by_slot(
    plan: Plan, r: int, frame: pl.DataFrame, make: Callable[[str, pl.DataFrame], pl.DataFrame]
) -> list[pl.DataFrame]:
    """Make a frame of the intervals of each slot of a report: `make` is given the key of its events, and the rows."""
    slots = plan.summaries[r].slots
    if frame["slot"].n_unique() == 1:
        return [make(slots[frame["slot"][0]], frame)]
    return [make(slots[int(s)], part) for (s,), part in frame.group_by("slot", maintain_order=True)]

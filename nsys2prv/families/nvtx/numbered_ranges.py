"""Ranges that number the iterations of a run: candidates of one report, with the device activity launched in each.

The plan chooses among the candidates of all reports (see run/steady.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.families.nvtx.range_patterns import LIBRARY_DOMAINS, number_of, pattern_of
from nsys2prv.families.relations import from_profiler
from nsys2prv.intervals.spans import Times
from nsys2prv.report import schema
from nsys2prv.report.ids import process_of

# Of a thread only the patterns that last longest together can be iterations: at most so many are kept.
MOST_PATTERNS = 16

# A range whose text comes once on its thread. Times are the report's; `first` and `last`: begin of the first and end of
# the last device activity that its process launched in it (null: none); `open`: recording stopped within it.
NUMBERED_RANGE = {
    "globalTid": pl.Int64(),
    "pattern": pl.String(),
    "number": pl.Int64(),
    "text": pl.String(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "open": pl.Boolean(),
    "first": pl.Int64(),
    "last": pl.Int64(),
}
# How long the ranges of a thread last together (ns), by which a process' main thread is told.
THREAD_TOTAL = {"globalTid": pl.Int64(), "total": pl.Int64()}
# Patterns of which a text came again on a thread: they number no iterations.
REPEATED = {"globalTid": pl.Int64(), "pattern": pl.String()}
_KEY = ["globalTid", "pattern"]


class NumberedRanges(NamedTuple):
    """Candidates of a report: NUMBERED_RANGE, THREAD_TOTAL and REPEATED."""

    ranges: pl.DataFrame
    totals: pl.DataFrame
    repeated: pl.DataFrame


NO_NUMBERED_RANGES = NumberedRanges(*(pl.DataFrame(schema=s) for s in (NUMBERED_RANGE, THREAD_TOTAL, REPEATED)))


@dataclass
class NumberedRangesSoFar:
    """Candidates gathered over the slices of a report."""

    found: NumberedRanges = field(default_factory=lambda: NO_NUMBERED_RANGES)

    def add(self, events: pl.DataFrame, work: list[pl.DataFrame], last: int) -> None:
        """Take one slice.

        `events`: NVTX events (see `relations.ranges`); `work`: device activity by table (see `relations.device_work`);
        `last`: time of the report's last event, which ends the ranges that are still open (ns).
        """
        own = events.filter(
            pl.col("eventType").is_in(schema.PUSH_POP), ~pl.col("domain").is_in(LIBRARY_DOMAINS), ~from_profiler()
        ).with_columns(open=pl.col("end").is_null(), end=pl.col("end").fill_null(last))
        lasting = own.group_by("globalTid").agg(total=(pl.col("end") - pl.col("start")).sum())
        totals = (
            pl.concat([self.found.totals, lasting.select(pl.col(c).cast(t) for c, t in THREAD_TOTAL.items())])
            .group_by("globalTid")
            .agg(pl.sum("total"))
        )
        repeated, ranges = _once(self.found.repeated, self.found.ranges, own)
        self.found = NumberedRanges(_launched_in(ranges, work), totals.sort("globalTid"), repeated)


def _once(repeated: pl.DataFrame, before: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return REPEATED and NUMBERED_RANGE with the ranges of a slice: those of patterns whose texts come once."""
    texts = pl.DataFrame({"text": events["text"].unique()})
    named = texts.with_columns(pattern=pattern_of(pl.col("text")), number=number_of(pl.col("text"))).drop_nulls()
    numbered = events.join(named, on="text").with_columns(first=pl.lit(None, pl.Int64), last=pl.lit(None, pl.Int64))
    every = pl.concat([before, numbered.select(pl.col(c).cast(t) for c, t in NUMBERED_RANGE.items())])
    again = every.group_by(*_KEY, "text").len().filter(pl.col("len") > 1).select(REPEATED)
    repeated = pl.concat([repeated, again]).unique().sort(_KEY)
    once = every.join(repeated, on=_KEY, how="anti")
    length = (pl.col("end") - pl.col("start")).sum()
    longest = once.group_by(_KEY).agg(total=length).sort("total", "pattern", descending=[True, False])
    kept = longest.group_by("globalTid", maintain_order=True).head(MOST_PATTERNS)
    return repeated, once.join(kept, on=_KEY, how="semi").sort(*_KEY, "start", "end", descending=[False] * 3 + [True])


def _launched_in(ranges: pl.DataFrame, work: list[pl.DataFrame]) -> pl.DataFrame:
    """Widen `first` and `last` of each range by the work that its process launched in it, whatever the thread."""
    if ranges.is_empty() or not work:
        return ranges
    columns = [pl.col("globalPid"), pl.col("called"), pl.col("start"), pl.col("end")]
    launched = pl.concat([frame.select(columns) for frame in work]).drop_nulls("called")
    process = launched.select(process_of(pl.col("globalPid")).alias("process"))["process"].to_numpy()
    called, start = launched["called"].to_numpy(), launched["start"].to_numpy()
    end = np.maximum(launched["end"].to_numpy(), start + 1)
    parts = []
    for (tid, _), own in ranges.group_by(_KEY, maintain_order=True):
        here = process == pl.select(process_of(pl.lit(tid, pl.Int64))).item()
        parts.append(_widened(own, called[here], start[here], end[here]))
    return pl.concat(parts)


def _widened(ranges: pl.DataFrame, called: Times, start: Times, end: Times) -> pl.DataFrame:
    """Widen the ranges of one thread and pattern by the work (ns: called, start, end) that was launched in them."""
    at = np.searchsorted(ranges["start"].to_numpy(), called, side="right") - 1
    within = (at >= 0) & (called < ranges["end"].to_numpy()[np.maximum(at, 0)])
    grouped = pl.DataFrame({"at": at[within], "start": start[within], "end": end[within]}).group_by("at")
    extents = grouped.agg(pl.col("start").min(), pl.col("end").max())
    joined = (
        ranges.with_row_index("at")
        .with_columns(pl.col("at").cast(pl.Int64))
        .join(extents.select("at", new_first="start", new_last="end"), on="at", how="left", maintain_order="left")
    )
    return joined.with_columns(
        first=pl.min_horizontal("first", "new_first"), last=pl.max_horizontal("last", "new_last")
    ).select(*NUMBERED_RANGE)

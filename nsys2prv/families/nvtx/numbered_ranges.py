"""Ranges that number the iterations of a run: candidates of one report, with the device activity launched in each.

The plan chooses among the candidates of all reports (see run/iterations/steady.py).
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.families.nvtx.range_patterns import LIBRARY_DOMAINS, number_of, pattern_of
from nsys2prv.families.nvtx_events import from_profiler
from nsys2prv.intervals.shortest import end_of, ends_of
from nsys2prv.intervals.spans import Times
from nsys2prv.model.frames import NUMBERED_RANGE, REPEATED, THREAD_TOTAL, NumberedRanges
from nsys2prv.model.global_ids import process_of
from nsys2prv.model.schemas import to_schema

# Patterns kept of each thread. Only the patterns with the longest total time can be iterations.
MOST_PATTERNS = 16

_PATTERN_KEY = ["globalTid", "pattern"]


def with_slice(before: NumberedRanges, events: pl.DataFrame, work: pl.DataFrame, last: int) -> NumberedRanges:
    """Return the candidates of the slices so far and of one more.

    `events`: push/pop ranges (see NvtxEvents); `work`: device activity with its call, of this slice (see
    `projection.launched_work`); `last`: time at which open ranges end (ns), which does not matter if none is open.
    """
    # As drawn: what ends before it begins lasts 1 ns.
    end = end_of(pl.col("end").fill_null(last))
    own = events.filter(~pl.col("domain").is_in(LIBRARY_DOMAINS), ~from_profiler()).with_columns(
        open=pl.col("end").is_null(), end=end
    )
    lasting = own.group_by("globalTid").agg(total=(pl.col("end") - pl.col("start")).sum())
    lasting = to_schema(lasting, THREAD_TOTAL)
    totals = pl.concat([before.totals, lasting]).group_by("globalTid").agg(pl.sum("total"))
    repeated, ranges = _once(before.repeated, before.ranges, own)
    return NumberedRanges(_launched_in(ranges, work), totals.sort("globalTid"), repeated)


def _once(repeated: pl.DataFrame, before: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return REPEATED and NUMBERED_RANGE with the ranges of a slice, for patterns without a repeated text."""
    texts = pl.DataFrame({"text": events["text"].unique()})
    named = texts.with_columns(pattern=pattern_of(pl.col("text")), number=number_of(pl.col("text"))).drop_nulls()
    numbered = events.join(named, on="text").with_columns(first=pl.lit(None, pl.Int64), last=pl.lit(None, pl.Int64))
    every = pl.concat([before, to_schema(numbered, NUMBERED_RANGE)])
    again = every.group_by(*_PATTERN_KEY, "text").len().filter(pl.col("len") > 1).select(*REPEATED)
    repeated = pl.concat([repeated, again]).unique().sort(_PATTERN_KEY)
    once = every.join(repeated, on=_PATTERN_KEY, how="anti")
    length = (pl.col("end") - pl.col("start")).sum()
    longest = once.group_by(_PATTERN_KEY).agg(total=length).sort("total", "pattern", descending=[True, False])
    kept = longest.group_by("globalTid", maintain_order=True).head(MOST_PATTERNS)
    return repeated, once.join(kept, on=_PATTERN_KEY, how="semi").sort(
        *_PATTERN_KEY, "start", "end", descending=[False] * 3 + [True]
    )


def _launched_in(ranges: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Widen `first` and `last` of each range by the work that its process launched in it, whatever the thread."""
    if ranges.is_empty() or work.is_empty():
        return ranges
    process = work.select(process_of(pl.col("caller")).alias("process"))["process"].to_numpy()
    called, start, end = (work[c].to_numpy() for c in ("called", "start", "end"))
    parts = []
    for (tid, _), own in ranges.group_by(_PATTERN_KEY, maintain_order=True):
        here = process == pl.select(process_of(pl.lit(tid, pl.Int64))).item()
        parts.append(_widened(own, called[here], start[here], ends_of(start[here], end[here])))
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

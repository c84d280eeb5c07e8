"""The calls and NVTX ranges of host threads of a run."""

from __future__ import annotations

from functools import partial

import polars as pl

from nsys2prv.analysis.frames import CALLS, RANGES, TEXT
from nsys2prv.analysis.gather.joined_reports import OF_REPORT, join_reports
from nsys2prv.analysis.gather.stored_intervals import (
    CALL_KINDS,
    OS,
    by_slot,
    label_texts,
    merged_intervals,
    spills_of_run,
)
from nsys2prv.families.nvtx.nvtx import FAMILY as NVTX
from nsys2prv.intervals.spans import Span
from nsys2prv.model.event_types import NVTX_DOMAIN, block_and_name
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.plan import Plan


def calls_of_run(plan: Plan, span: Span | None, other: bool = False) -> pl.DataFrame:
    """Return CALLS of threads with a row, or those of the OS of the `other` threads.

    `span` (merged ns): only calls that reach into it, whole.
    """
    parts = []
    for r, kind, spill in spills_of_run(plan, {f: k for f, k in CALL_KINDS.items() if k == OS or not other}):
        make = partial(_named_calls, plan, r, kind)
        merged = merged_intervals(plan, r, spill, span, other)
        parts += by_slot(plan, r, merged, make) if merged.height or not other else []
    return join_reports(plan, parts, CALLS)


def _named_calls(plan: Plan, r: int, kind: str, key: str, part: pl.DataFrame) -> pl.DataFrame:
    named = part.with_columns(label_texts(plan, r, key, part["value"]).alias("name"), pl.lit(kind, TEXT).alias("kind"))
    return to_schema(named, {**OF_REPORT, **CALLS})


def ranges_of_run(plan: Plan, span: Span | None) -> pl.DataFrame:
    """Return RANGES of a run. `span` (merged ns): only those that reach into it, whole."""
    parts = []
    for r, _, spill in spills_of_run(plan, {NVTX.name: ""}):
        parts += by_slot(plan, r, merged_intervals(plan, r, spill, span), partial(_named_ranges, plan, r))
    return join_reports(plan, parts, RANGES)


def _named_ranges(plan: Plan, r: int, key: str, part: pl.DataFrame) -> pl.DataFrame:
    found = block_and_name(key)
    if found is None or found[0] is not NVTX_DOMAIN:
        return pl.DataFrame(schema={**OF_REPORT, **RANGES})
    # Nearly every range may have a text of its own.
    text = label_texts(plan, r, key, part["value"], pl.String()).alias("text")
    named = part.with_columns(text, pl.lit(found[1], TEXT).alias("domain"))
    return to_schema(named, {**OF_REPORT, **RANGES})

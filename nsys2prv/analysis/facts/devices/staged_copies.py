"""Copies between GPUs that go through the host, and the idle times before them."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.frames import COPY, NO_DEVICE, TO_DEVICE, TO_HOST
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.intervals.grouped import Axis
from nsys2prv.intervals.spans import Spans

# The driver records both halves of such a copy, to the host and from there, with device memory at both ends.
STAGED = pl.col("name").is_in([TO_HOST, TO_DEVICE]) & text_contains("memory", "^Device.* to Device").fill_null(False)
STAGED_COPY = (pl.col("kind") == COPY) & STAGED


def waits_for_staged(case: Case, covered: Spans) -> tuple[Axis, Spans]:
    """Return the idle times, on an axis of the devices, in which they wait for a staged copy that was launched."""
    axis, _, gaps = case.idle_gaps(covered)
    # As `before` counts: by device, then start. After the last work of a device comes that of another one, or none.
    ordered = case.run.work.select("device", staged=STAGED_COPY).sort("device", maintain_order=True)
    none = pl.DataFrame({"device": [NO_DEVICE], "staged": [False]}, schema=ordered.schema)
    following = pl.concat([ordered, none])[gaps["before"]]
    own = following["staged"] & (following["device"] == pl.Series(axis.group(gaps["start"].to_numpy())))
    waits = gaps.filter(own)
    return axis, Spans(waits["until"].to_numpy(), waits["end"].to_numpy())

"""Rows of a run by family: written, left out, altered, and of families that were not asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.families.whole_run import TENSOR_ESTIMATE_FAMILY
from nsys2prv.model.losses import Loss, Tally
from nsys2prv.pipeline.encode.encode import WindowCounts
from nsys2prv.pipeline.encode.encoding_input import EncodingInput
from nsys2prv.run.plan import Plan
from nsys2prv.run.trace_rows import NO_ROW


class RowCounts(NamedTuple):
    """Rows by family: those written, those of families that were not asked for (`off`), and those of each loss.

    `dropped`: by family and the sentence of the loss, rows that are left out, or drawn otherwise than the report has
    them.
    """

    rows: dict[str, int]
    dropped: dict[str, dict[str, int]]
    off: dict[str, int]


def count_rows(encoding: EncodingInput, written: Sequence[WindowCounts]) -> RowCounts:
    """Count the rows of all reports, given the counts of the windows that were encoded (none in a dry run)."""
    plan, estimates = encoding.plan, encoding.estimates
    rows: dict[str, int] = {}
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    off: dict[str, int] = {}

    for r, summary in enumerate(plan.summaries):
        for family, count in summary.counts.items():
            rows[family] = rows.get(family, 0) + count.rows
            for lost, n in count.dropped.items():
                tallies[family].add(lost, n)
        for family, loss, n in _hidden(plan, r):
            rows[family] -= n
            tallies[family].count(loss, n)
        for family, n in summary.off.items():
            off[family] = off.get(family, 0) + n
    for window in written:
        for family, hidden in window.hidden_messages.items():
            rows[family] -= hidden
            tallies[family].count(Loss.LINE_WITHOUT_ROW, hidden)
        for family, n in window.repeated.items():
            rows[family] -= n
            tallies[family].count(Loss.REPEATED, n)
    for family, n in plan.resampled.items():
        # They have no row because of this, and were counted so above.
        tallies[family].count(Loss.NO_ROW, -n)
        tallies[family].count(Loss.RESAMPLED, n)
    for spill in encoding.run_spills:
        # Each event has a begin and an end.
        rows[spill.family] = rows.get(spill.family, 0) + spill.rows // 2
    for one in encoding.run_events:
        for lost, n in one.left.items():
            tallies[one.family].add(lost, n)
    if estimates is not None:
        rows[TENSOR_ESTIMATE_FAMILY.name] = estimates.kernels
        for lost, n in estimates.left.items():
            tallies[TENSOR_ESTIMATE_FAMILY.name].add(lost, n)
    for (family, unmatched), n in encoding.matches.counts.left.items():
        tallies[family].count(unmatched, n)
    dropped = {family: _sentences(tallies[family]) for family in sorted(tallies)}
    return RowCounts(rows, {family: sentences for family, sentences in dropped.items() if sentences}, off)


def _sentences(tally: Tally) -> dict[str, int]:
    """Return rows by sentence, in an order that does not depend on the order of the losses."""
    return dict(sorted((lost.sentence, n) for lost, n in tally.dropped.items() if n))


def _hidden(plan: Plan, report: int) -> Iterator[tuple[str, Loss, int]]:
    """Yield family, loss, and rows of places without a row in the trace."""
    uses, objects = plan.summaries[report].uses, plan.objects
    place = uses["place"].to_numpy()
    undrawn = objects.row_of[report][place] == NO_ROW
    unchosen, of_profiler = objects.unchosen[report][place], objects.of_profiler[report][place]
    losses = (
        (unchosen, Loss.OF_OTHER_RANKS),
        (of_profiler & ~unchosen, Loss.OF_PROFILER),
        (~(unchosen | of_profiler), Loss.NO_ROW),
    )
    for mask, loss in losses:
        by_family = uses.filter(pl.Series(undrawn & mask)).group_by("family").agg(pl.col("rows").sum())
        yield from ((family, loss, n) for family, n in by_family.rows())

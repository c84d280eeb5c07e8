"""Rows of a run by family: written, left out, altered, and of families that were not asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.families.whole_run import TENSOR_ESTIMATE_FAMILY
from nsys2prv.model.losses import Loss, Lost, Tally
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
    rows: Counter[str] = Counter()
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    off: Counter[str] = Counter()

    for summary in encoding.plan.summaries:
        off.update(summary.off)
        for family, count in summary.counts.items():
            rows[family] += count.rows
    # Each event has a begin and an end.
    for spill in encoding.run_spills:
        rows[spill.family] += spill.rows // 2
    if encoding.estimates is not None:
        rows[TENSOR_ESTIMATE_FAMILY.name] = encoding.estimates.kernels
    for family, loss, n in _stored_but_not_written(encoding.plan, written):
        rows[family] -= n
        tallies[family].count(loss, n)
    for family, n in encoding.plan.resampled.items():
        # They have no row because of this, and were counted so above.
        tallies[family].count(Loss.NO_ROW, -n)
        tallies[family].count(Loss.RESAMPLED, n)
    for family, lost, n in _lost_before_encoding(encoding):
        tallies[family].add(lost, n)
    for (family, unmatched), n in encoding.matches.counts.left.items():
        tallies[family].count(unmatched, n)
    dropped = {family: _sentences(tallies[family]) for family in sorted(tallies)}
    return RowCounts(dict(rows), {family: sentences for family, sentences in dropped.items() if sentences}, dict(off))


def _stored_but_not_written(plan: Plan, written: Sequence[WindowCounts]) -> Iterator[tuple[str, Loss, int]]:
    """Yield family, loss, and rows that reports stored and the trace does not show."""
    for report in range(len(plan.summaries)):
        yield from _hidden(plan, report)
    for window in written:
        yield from ((family, Loss.LINE_WITHOUT_ROW, n) for family, n in window.hidden_messages.items())
        yield from ((family, Loss.REPEATED, n) for family, n in window.repeated.items())


def _lost_before_encoding(encoding: EncodingInput) -> Iterator[tuple[str, Lost, int]]:
    """Yield family, loss, and rows that were left out or altered before the lines were encoded."""
    for summary in encoding.plan.summaries:
        for family, count in summary.counts.items():
            yield from ((family, lost, n) for lost, n in count.dropped.items())
    for one in encoding.run_events:
        yield from ((one.family, lost, n) for lost, n in one.left.items())
    if encoding.estimates is not None:
        yield from ((TENSOR_ESTIMATE_FAMILY.name, lost, n) for lost, n in encoding.estimates.left.items())


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

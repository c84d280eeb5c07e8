"""Sequence numbers of a process that several reports hold: later ones go on, and what they repeat keeps its number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from nsys2prv.model.frames import COLLECTIVE, ENDS
from nsys2prv.pipeline.store.combinations import Points
from nsys2prv.pipeline.store.spill import read_spill, write_spill
from nsys2prv.run.matching.communicators import Numbers
from nsys2prv.run.matching.match_keys import end_keys
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Spill, Summary

# What two reports say alike of an end that both recorded; `instant` is its time, merged.
_SAME = ("task", "device", "communicator", "kind", "peer", "tag", "operation", "size", "instant")


def continue_sequences(plan: Plan, folder: Path) -> Plan:
    """The plan with the ends of such processes numbered on, spilled again under the keys of their new numbers.

    An end that several reports recorded stays in the first of them only: nothing is matched twice.
    """
    summaries, known = list(plan.summaries), plan.communicators
    before = [numbers.copy() for numbers in known.before]
    for task, reports in known.parts.items():
        parts = [_ends(plan, r, n, spill) for r in reports for n, spill in enumerate(summaries[r].ends)]
        if not parts:
            continue
        numbered = _number_on(pl.concat(parts), task)
        for r in reports:
            ends = numbered.filter(pl.col("report") == r)
            _count_before(ends.filter(pl.col("task") == task), before[r])
            summaries[r] = _again(summaries[r], ends.filter(~pl.col("again")), folder)
    return plan._replace(summaries=tuple(summaries), communicators=known._replace(before=tuple(before)))


def _ends(plan: Plan, report: int, number: int, spill: Spill) -> pl.DataFrame:
    """Ends of one spill in the order of their sequence, with report, spill, communicator, task, device and instant."""
    ends = read_spill(spill, range(len(spill.first)))
    member = ends["member"].to_numpy()
    return ends.with_columns(
        report=pl.lit(report),
        spill=pl.lit(number),
        communicator=pl.Series(plan.communicators.number[report][member]),
        task=pl.Series(plan.communicators.task[report][member]),
        device=pl.Series(plan.communicators.device[report][member]),
        instant=pl.Series(plan.clocks[report].merged(ends["time"].to_numpy())),
    ).sort("sequence", maintain_order=True)


def _number_on(ends: pl.DataFrame, task: int) -> pl.DataFrame:
    """Ends with `number`, their sequence over all reports of the task, and `again`, whether an earlier report has it.

    `ends` are those of the reports in order of time; what they hold of other tasks keeps its sequence.
    """
    own = pl.col("task") == task
    # A collective's peer is its root, which tells nothing of its order.
    counted_by = ("task", "device", "communicator", "kind", pl.when(pl.col("kind") != COLLECTIVE).then("peer"), "tag")
    # What one report holds twice happened twice.
    marked = ends.with_columns(copy=pl.int_range(pl.len()).over(*_SAME, "report")).with_columns(
        again=own & (pl.int_range(pl.len()).over(*_SAME, "copy") > 0)
    )
    counted = marked.with_columns(number=(~pl.col("again")).cast(pl.Int64).cum_sum().over(*counted_by))
    return counted.with_columns(
        number=pl.when(own).then(pl.col("number").first().over(*_SAME, "copy")).otherwise("sequence")
    )


def _count_before(ends: pl.DataFrame, before: Numbers) -> None:
    """Set, for each member of a report, the collectives that came before its first."""
    collectives = ends.filter(pl.col("kind") == COLLECTIVE)
    firsts = collectives.group_by("member").agg((pl.col("number") - pl.col("sequence")).first())
    before[firsts["member"].to_numpy()] = firsts["number"].to_numpy()


def _again(summary: Summary, ends: pl.DataFrame, folder: Path) -> Summary:
    communicators: Sequence[str] = summary.members["communicator"].to_list()
    spills = []
    for number, spill in enumerate(summary.ends):
        own = ends.filter(pl.col("spill") == number).with_columns(sequence="number").select(*ENDS)
        if own.is_empty():
            continue
        keyed = own.with_columns(pl.Series("key", end_keys(own, communicators))).sort("key", maintain_order=True)
        path = folder / f"{spill.path.stem}.on.arrow"
        spills.append(write_spill(path, "ends", spill.family, Points(keyed), (), sorted_by="key"))
    return summary._replace(ends=tuple(spills))

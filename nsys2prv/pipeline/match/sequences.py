"""Sequence numbers of a process in several reports: later reports go on, and repeated ends keep their number.

Operations on the device are counted here, too, where other ranks' parts of them can only be counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.intervals.spans import Indices
from nsys2prv.model.frames import COLLECTIVE, COMPLETION, IDENTITY, OF_COLLECTIVES, OPERATION_END
from nsys2prv.pipeline.store.points import Points
from nsys2prv.pipeline.store.spill import SpillOf, read_spill, write_spill
from nsys2prv.run.matching.match_keys import end_keys
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Spill

# Columns that are equal if two reports recorded the same end. `instant` is its time, merged.
_SAME = ("family", "task", "device", "communicator", "kind", "peer", "tag", "operation", "size", "instant")


class MatchKeys(NamedTuple):
    """Stored match keys of each report, with sequence numbers that go on over the reports of a process.

    `before[r][m]`: collectives of member m of report r in earlier reports of its process.
    """

    ends: tuple[tuple[Spill, ...], ...]
    before: tuple[Indices, ...]


def continue_sequences(plan: Plan, folder: Path, batch_rows: int) -> MatchKeys:
    """Number the ends of tasks to be counted (see Communicators), and store them again under their new keys.

    An end that several reports recorded stays in the first of them only: nothing is matched twice.
    """
    stored = [summary.operation_ends for summary in plan.summaries]
    before = [np.zeros(summary.members.height, dtype=np.int64) for summary in plan.summaries]
    for task, reports in plan.communicators.counted.items():
        of_task = [_ends(plan, r, n, spill) for r in reports for n, spill in enumerate(stored[r])]
        if not of_task:
            continue
        numbered = _number_on(pl.concat(of_task), task)
        for r in reports:
            ends = numbered.filter(pl.col("report") == r)
            firsts = _collectives_before(ends.filter(pl.col("task") == task))
            before[r][firsts["member"].to_numpy()] = firsts["number"].to_numpy()
            communicators: Sequence[str] = plan.summaries[r].members["communicator"].to_list()
            again = _store_again(stored[r], ends.filter(~pl.col("again")), communicators, folder, batch_rows)
            stored[r] = tuple(again)
    return MatchKeys(tuple(stored), tuple(before))


def _ends(plan: Plan, report: int, number: int, spill: Spill) -> pl.DataFrame:
    """Read the ends of one spill in order of sequence, or of time for those without.

    Also report, spill, family, communicator, task, device, instant, and IDENTITY where ends are matched by it.
    """
    ends = read_spill(spill, range(len(spill.first)))
    member = ends["member"].to_numpy()
    known = pl.Series(plan.communicators.identified[plan.communicators.number[report][member]])
    identity = pl.col(IDENTITY) if IDENTITY in ends.columns else pl.lit(None, pl.Int64)
    # Spills have the column or not, and it has one place in all of them.
    return ends.select(
        *OPERATION_END,
        pl.when(known).then(identity).alias(IDENTITY),
        family=pl.lit(spill.family),
        report=pl.lit(report),
        spill=pl.lit(number),
        communicator=pl.Series(plan.communicators.number[report][member]),
        task=pl.Series(plan.communicators.task[report][member]),
        device=pl.Series(plan.communicators.device[report][member]),
        instant=pl.Series(plan.clocks[report].merged(ends["time"].to_numpy())),
    ).sort("sequence", pl.when(pl.col("sequence").is_null()).then("time"), maintain_order=True)


def _number_on(ends: pl.DataFrame, task: int) -> pl.DataFrame:
    """Add `number`, the sequence over all reports of the task, and `again`, true if an earlier report has the end.

    `ends`: of the reports in order of time. Ends of other tasks keep their sequence.
    """
    own = pl.col("task") == task
    # A collective's peer is its root, which tells nothing of its order.
    peer = pl.when(~pl.col("kind").is_in(OF_COLLECTIVES)).then("peer")
    counted_by = ("family", "task", "device", "communicator", "kind", peer, "tag")
    # Equal ends of a single report happened twice.
    marked = ends.with_columns(copy=pl.int_range(pl.len()).over(*_SAME, "report")).with_columns(
        again=own & (pl.int_range(pl.len()).over(*_SAME, "copy") > 0)
    )
    counted = marked.with_columns(number=(~pl.col("again")).cast(pl.Int64).cum_sum().over(*counted_by))
    numbered = counted.with_columns(
        number=pl.when(own).then(pl.col("number").first().over(*_SAME, "copy")).otherwise("sequence")
    )
    # Not every collective has a completion, which takes the number of its collective.
    entered = pl.col("number").filter(pl.col("kind") == COLLECTIVE).first().over("report", "member", "sequence")
    return numbered.with_columns(number=pl.when(pl.col("kind") == COMPLETION).then(entered).otherwise("number"))


def _collectives_before(ends: pl.DataFrame) -> pl.DataFrame:
    """Return `number` for each member of a report: the number of collectives before its first one."""
    collectives = ends.filter(pl.col("kind") == COLLECTIVE).drop_nulls("sequence")
    return collectives.group_by("member").agg((pl.col("number") - pl.col("sequence")).first())


def _store_again(
    stored: Sequence[Spill], ends: pl.DataFrame, communicators: Sequence[str], folder: Path, batch_rows: int
) -> Iterator[Spill]:
    """Store the numbered ends of a report under the keys of their new numbers."""
    for number, spill in enumerate(stored):
        own = ends.filter(pl.col("spill") == number).with_columns(sequence="number").select(*OPERATION_END, IDENTITY)
        if own.is_empty():
            continue
        if own[IDENTITY].null_count() == own.height:
            own = own.drop(IDENTITY)
        keyed = own.with_columns(pl.Series("key", end_keys(own, communicators))).sort("key", maintain_order=True)
        path = folder / f"{spill.path.stem}.on.arrow"
        yield write_spill(path, SpillOf("ends", spill.family), Points(keyed), batch_rows)

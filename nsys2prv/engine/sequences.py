"""Sequence numbers of processes that several reports hold, one after the other: a later one goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from nsys2prv.engine.ends import end_keys
from nsys2prv.engine.plan import Plan
from nsys2prv.engine.spill import write_spill
from nsys2prv.merge.communicators import Communicators
from nsys2prv.merge.summary import Spill, Summary
from nsys2prv.timeline.frames import COLLECTIVE, END


def continue_sequences(plan: Plan, folder: Path) -> Plan:
    """The plan with the ends of such processes numbered on, spilled again under the keys of their new numbers."""
    summaries = list(plan.summaries)
    for task, reports in plan.communicators.parts.items():
        _number_on(summaries, plan.communicators, task, reports, folder)
    return replace(plan, summaries=tuple(summaries))


def _number_on(
    summaries: list[Summary], known: Communicators, task: int, reports: tuple[int, ...], folder: Path
) -> None:
    parts = []
    for part, r in enumerate(reports):
        for number, spill in enumerate(summaries[r].ends):
            ends = pl.scan_ipc(spill.path).collect()
            member = ends["member"].to_numpy()
            parts.append(
                ends.with_columns(
                    part=pl.lit(part),
                    spill=pl.lit(number),
                    communicator=pl.Series(known.number[r][member]),
                    task=pl.Series(known.task[r][member]),
                )
            )
    if not parts:
        return
    # A collective's peer is its root, which tells nothing of its order.
    other_side = pl.when(pl.col("kind") != COLLECTIVE).then("peer")
    ordered = pl.concat(parts).sort("part", "sequence", maintain_order=True)
    numbered = ordered.with_columns(side=other_side).with_columns(
        sequence=pl.when(pl.col("task") == task)
        .then(pl.int_range(1, pl.len() + 1).over("task", "communicator", "kind", "side", "tag"))
        .otherwise("sequence")
    )
    for part, r in enumerate(reports):
        ends = numbered.filter(pl.col("part") == part)
        spills = [
            _again(summaries[r], s, ends.filter(pl.col("spill") == n), folder) for n, s in enumerate(summaries[r].ends)
        ]
        summaries[r] = replace(summaries[r], ends=tuple(spills))


def _again(summary: Summary, spill: Spill, ends: pl.DataFrame, folder: Path) -> Spill:
    keys = end_keys(ends, summary.members["communicator"].to_list())
    keyed = ends.select(*END).with_columns(pl.Series("key", keys)).sort("key", maintain_order=True)
    path = folder / f"{spill.path.stem}.on.arrow"
    return write_spill(path, "ends", spill.family, keyed, (), sorted_by="key")

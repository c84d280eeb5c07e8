"""Communicators over all reports: their members and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.intervals.spans import Indices, Mask
from nsys2prv.model import event_types as types
from nsys2prv.model.interning import IDENTIFIED, UNKNOWN_GPU
from nsys2prv.run.report_summary import Summary
from nsys2prv.run.tasks import RecordedProcess, Task

# Rank, task or GPU of a member, if unknown.
UNKNOWN_NUMBER = -1
# GPU of a task that is on a communicator once.
SOLE_MEMBER = -2
# More GPUs than a process can have.
_DEVICES = 1 << 20
# Type of a sequence number -> type of the communicator beside it.
COMMUNICATOR_BESIDE = {
    types.NCCL_SEQUENCE.key: types.NCCL_COMMUNICATOR.key,
    types.MPI_SEQUENCE.key: types.MPI_COMMUNICATOR.key,
}


class Communicators(NamedTuple):
    """Names of all communicators in order, ranks of each (0: not known), and the members in each report.

    `number[r][m]`, `rank[r][m]`, `task[r][m]`, `device[r][m]`: communicator, rank on it, task and GPU of member m of
    report r. UNKNOWN_NUMBER: the rank or the GPU is not known. SOLE_MEMBER: the task is on the communicator once.
    `identified`: True for communicators whose operations are all known from the device, with numbers that are the same
    on all ranks: these are matched by number. `called[r][m]`: whether any report has calls of that member's operations.
    """

    names: tuple[str, ...]
    ranks: Indices
    number: tuple[Indices, ...]
    rank: tuple[Indices, ...]
    task: tuple[Indices, ...]
    device: tuple[Indices, ...]
    identified: Mask
    called: tuple[Mask, ...]
    # Tasks whose operations are to be counted -> their reports, in order: those that several reports hold, and those
    # with operations on the device of communicators that are not identified.
    counted: Mapping[int, tuple[int, ...]]


def find_communicators(summaries: Sequence[Summary], tasks: Sequence[Task]) -> Communicators:
    """Find the communicators of all reports. Ranks that no report states come from the members: see _ranks."""
    members = _members(summaries, tasks)
    names = sorted(members["communicator"].unique())
    numbered = members.with_columns(number=pl.col("communicator").replace_strict(_numbers(names)))
    members = _origins(_ranks(_devices(numbered), tasks))
    present = _order().drop_nulls().n_unique()
    known = pl.coalesce(pl.col("ranks").max(), pl.when(present > 1).then(present))
    ranks = members.group_by("number").agg(known.fill_null(0).alias("ranks")).sort("number")["ranks"]
    several = (t for t, task in enumerate(tasks) if len(task.recorded) > 1)
    left = members.filter(pl.col("operated").is_not_null() & ~pl.col("is_called") & ~pl.col("identified"))
    counted = {*several, *left["task"]}
    return Communicators(
        names=tuple(names),
        ranks=ranks.cast(pl.Int64).to_numpy(),
        number=_by_member(summaries, members, "number"),
        rank=_by_member(summaries, members, "rank_on"),
        task=_by_member(summaries, members, "task"),
        device=_by_member(summaries, members, "device"),
        identified=members.group_by("number").agg(pl.col("identified").first()).sort("number")["identified"].to_numpy(),
        called=tuple(numbers.astype(bool) for numbers in _by_member(summaries, members, "is_called")),
        counted={t: tuple(p.report for p in task.recorded) for t, task in enumerate(tasks) if t in counted},
    )


def _numbers(names: Sequence[str]) -> dict[str, int]:
    return {name: n for n, name in enumerate(names)}


def _members(summaries: Sequence[Summary], tasks: Sequence[Task]) -> pl.DataFrame:
    """Collect the members of all reports: report, task, and the columns of Summary.members."""
    task_of = {process: t for t, task in enumerate(tasks) for process in task.recorded}
    of_reports = []
    for r, summary in enumerate(summaries):
        task = pl.Series(
            [task_of.get(RecordedProcess(r, p), UNKNOWN_NUMBER) for p in summary.members["process"]], dtype=pl.Int64
        )
        of_reports.append(summary.members.with_columns(report=pl.lit(r, pl.Int64), task=task))
    return pl.concat(of_reports)


def _devices(members: pl.DataFrame) -> pl.DataFrame:
    """Set `device` of each member: one of several GPUs of its task, SOLE_MEMBER, or UNKNOWN_NUMBER.

    If a process has one GPU in a report, its GPU counts only if other reports have more of that process.
    """
    one = pl.coalesce("device", "gpu")
    several = pl.when(one >= 0).then(one).drop_nulls().n_unique().over("number", "task") > 1
    own = pl.when(several).then(pl.coalesce(one, UNKNOWN_NUMBER)).otherwise(SOLE_MEMBER)
    return members.with_columns(device=pl.when(pl.col("device") == UNKNOWN_GPU).then(UNKNOWN_NUMBER).otherwise(own))


def _order() -> pl.Expr:
    """Return a number that orders members by task and GPU; null where the GPU is not known."""
    return pl.when(pl.col("device") != UNKNOWN_NUMBER).then(pl.col("task") * _DEVICES + pl.col("device").clip(0))


def _origins(members: pl.DataFrame) -> pl.DataFrame:
    """Add `is_called` and `identified`: see Communicators."""
    member = ("number", "task", "device")
    called = pl.col("called").max().over(member).is_not_null()
    operated = pl.col("operated").max().over(member)
    marked = members.with_columns(is_called=called, least=operated == IDENTIFIED)
    takes_part = pl.col("is_called") | pl.col("least").is_not_null()
    every = (pl.col("least").fill_null(False) | ~takes_part).all().over("number")
    return marked.with_columns(identified=every & takes_part.any().over("number")).drop("least")


def _ranks(members: pl.DataFrame, tasks: Sequence[Task]) -> pl.DataFrame:
    """Add `rank_on`: as a report states it, else the position among the members by global rank and GPU.

    If an operation names a rank beyond the number of members, reports are missing. Then the global rank counts, which
    is right for a communicator of all ranks with one GPU each.
    """
    own = "number"
    order = _order()
    # Another report of the same task may state the rank.
    elsewhere = pl.when(pl.col("task") >= 0).then(pl.col("rank").max().over(own, "task", "device"))
    stated = pl.when(pl.col("device") != UNKNOWN_NUMBER).then(pl.coalesce("rank", elsewhere))
    members = members.with_columns(stated=stated, order=order)
    position = pl.Series(_free_ranks(members))
    missing = pl.col("highest").max().over(own) >= pl.col("order").drop_nulls().n_unique().over(own)
    global_rank = pl.Series([t.rank for t in tasks] or [None], dtype=pl.Int64)
    alone = (pl.col("task") >= 0) & (pl.col("device") == SOLE_MEMBER)
    of_world = pl.when(alone).then(pl.lit(global_rank).gather(pl.col("task").clip(0)))
    return members.with_columns(
        rank_on=pl.coalesce(
            "stated", pl.when(missing.fill_null(False)).then(of_world).otherwise(position), UNKNOWN_NUMBER
        )
    )


def _free_ranks(members: pl.DataFrame) -> list[int | None]:
    """Assign each member without a rank the next free one."""
    ranks: dict[tuple[int, int], int] = {}
    waiting = members.filter(pl.col("stated").is_null()).drop_nulls("order")
    taken = {number: set(ranks) for number, ranks in members.group_by("number").agg("stated").rows()}
    for number, orders in waiting.group_by("number").agg(pl.col("order").unique().sort()).rows():
        free = (rank for rank in count() if rank not in taken[number])
        ranks |= {(number, one): rank for one, rank in zip(orders, free, strict=False)}
    return [ranks.get(key) for key in members.select("number", "order").rows()]


def _by_member(summaries: Sequence[Summary], members: pl.DataFrame, column: str) -> tuple[Indices, ...]:
    """Return a column of members as an array a report, at the report's number of each member."""
    arrays = []
    for r, summary in enumerate(summaries):
        own = members.filter(pl.col("report") == r)
        array = np.zeros(summary.members.height, dtype=np.int64)
        array[own["id"].to_numpy()] = own[column].to_numpy()
        arrays.append(array)
    return tuple(arrays)

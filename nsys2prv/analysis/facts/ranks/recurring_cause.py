"""Host work that has a name, recurs on one rank and delays others, though that rank is not the one that is late most.

Where hosts are late in turn, no rank waits for so much less than the others that it stands out. A cause that one of
them has in most iterations does.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.ranks.bubble import bubble
from nsys2prv.analysis.facts.ranks.chief_cause import wait_of_each
from nsys2prv.analysis.facts.ranks.late_groups import find_group
from nsys2prv.analysis.facts.ranks.latecomers import awaited_ranks, latecomer_ranks
from nsys2prv.analysis.facts.thresholds import LATE, PECULIAR, RECURS
from nsys2prv.analysis.graph.critical_path import HOST
from nsys2prv.analysis.graph.host_delays import FEWEST_ITERATIONS
from nsys2prv.analysis.graph.host_labels import BEFORE_LAUNCH


class RecurringCause(NamedTuple):
    """Named host work of a rank. `ns`: how long one of the waiting ranks waits for it (ns of an iteration).

    `iterations`: in how many of `of_iterations`; `waiting`: the ranks that wait; `at`: begin of the longest wait.
    """

    rank: int
    name: str
    ns: float
    iterations: int
    of_iterations: int
    waiting: tuple[int, ...]
    at: int


@once
def recurring_causes(case: Case) -> tuple[RecurringCause, ...]:
    """Return the recurring causes of ranks that are not late all along, the longest first: one a rank.

    A cause counts for no longer than others wait for its rank with nothing to compute. Other ranks have hardly any
    delay by work of that name: in a phase in which all ranks are late in turn, none is the cause. Of a pipeline there
    are none, since its stages wait for each other's hosts anyway.
    """
    if bubble(case):
        return ()
    group = find_group(case)
    late = [*(one.member for one in latecomer_ranks(case)), *(group.members if group else ())]
    named = pl.col("name").str.starts_with(BEFORE_LAUNCH).not_() & (pl.col("name") != "")
    others = pl.col("ns").sum().over("name") - pl.col("ns")
    causes = (
        case.analysis.explanation.causes.filter(pl.col("kind") == HOST, named)
        .filter(others < PECULIAR.value * pl.col("ns"))
        .filter(
            ~pl.col("rank").is_in(late),
            pl.col("ranks") > 0,
            pl.col("of_iterations") >= FEWEST_ITERATIONS,
            pl.col("iterations") >= RECURS.value * pl.col("of_iterations"),
        )
    )
    awaited = {one.member: one for one in awaited_ranks(case)}
    first = causes.unique("rank", keep="first", maintain_order=True)
    rows = first.select("rank", "name", wait_of_each(case), "iterations", "of_iterations").rows()
    bounded = [
        RecurringCause(rank, name, min(ns, one.wait_ns), count, of, one.waiting, one.at)
        for rank, name, ns, count, of in rows
        if (one := awaited.get(rank))
    ]
    return tuple(one for one in bounded if one.ns >= LATE.value * case.iteration_ns)

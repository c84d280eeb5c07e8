"""The chief cause of a late rank: what made it late most, in words, and advice on Python's interpreter lock."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.activity_names import activity
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import is_python
from nsys2prv.analysis.facts.ranks.latecomers import Latecomer
from nsys2prv.analysis.facts.thresholds import SCATTERED
from nsys2prv.analysis.graph.critical_path import COPYING, HOST, TRANSFER
from nsys2prv.analysis.graph.host_labels import BEFORE_LAUNCH
from nsys2prv.model.words import short

# The call in which CPython waits for its interpreter lock.
INTERPRETER_LOCK = "pthread_cond_timedwait"


class ChiefCause(NamedTuple):
    """The chief cause of a late rank: host work, copies, or transfers from and to others (`kind`), and its `name`.

    `ns`: how long one of the waiting ranks waits because of it (ns of an iteration); `iterations`: in how many it did
    so, of the `of_iterations` in which any rank waits; `share`: its part (of 1) of all such causes of the rank.
    """

    kind: str
    name: str
    ns: float
    iterations: int
    of_iterations: int
    share: float

    @property
    def scattered(self) -> bool:
        """Return True where launches of one kernel are a small part of it: the host is slow at many places."""
        return self.name.startswith(BEFORE_LAUNCH) and self.share < SCATTERED.value


def chief_cause(case: Case, rank: int) -> ChiefCause | None:
    """Return what made a rank late most, but for compute; None without it, or if most of it has no name."""
    causes = case.analysis.explanation.causes.filter(pl.col("kind").is_in([HOST, COPYING, TRANSFER]), rank=rank)
    named = causes.filter((pl.col("kind") == TRANSFER) | (pl.col("name") != ""))
    if named.is_empty() or 2 * named["ns"][0] < causes["ns"][0]:
        return None
    share = pl.lit(named["ns"][0] / max(int(causes["ns"].sum()), 1))
    return ChiefCause(*named.select("kind", "name", wait_of_each(case), "iterations", "of_iterations", share).row(0))


def wait_of_each(case: Case) -> pl.Expr:
    """Return how long one of the waiting ranks waits because of a CAUSE (ns of an iteration)."""
    return pl.col("ns") / pl.max_horizontal("ranks", 1) / case.step_count


def delay_of(case: Case, late: Latecomer) -> float:
    """Return how long others wait for a late rank (ns of an iteration): net of its own waiting, or for its chief cause.

    A rank that is late in a few iterations waits for others in the rest.
    """
    cause = chief_cause(case, late.member)
    return max(late.net_ns, min(cause.ns, late.wait_ns) if cause and cause.kind != TRANSFER else 0.0)


def interpreter_lock(case: Case, ranks: Collection[int], call: str) -> str:
    """Return advice on Python's interpreter lock, if ranks are Python and wait in the call that waits for it; else "".

    CPython waits for the lock in pthread_cond_timedwait (ceval_gil.c), 5 ms at a time.
    """
    of_python = any(task.rank in ranks and is_python(task.name) for task in case.run.tasks)
    if not of_python or INTERPRETER_LOCK not in call:
        return ""
    return (
        f"Python waits for its interpreter lock in `{INTERPRETER_LOCK}`: another thread of the process runs Python "
        "code meanwhile, such as a checkpoint, a logger or a loader. Move that to a process of its own."
    )


def host_work(name: str) -> str:
    """Return the words for host work by the name of its cause: a call or range, or what it launches at its end."""
    if name.startswith(BEFORE_LAUNCH):
        return f"host work before {activity(name.removeprefix(BEFORE_LAUNCH))}"
    return f"`{short(name, 40)}`"

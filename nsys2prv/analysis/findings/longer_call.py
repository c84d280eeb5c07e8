"""The call of the system in which the host of one rank is longer than those of others."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.findings.case import Case
from nsys2prv.analysis.findings.system_calls import FILE_CALLS, PROCESS_CALLS, SLEEPS
from nsys2prv.analysis.host import main_rows

# Calls that keep a host by themselves. In others it waits for threads or ranks that are late for reasons of their own.
OWN_CALLS = "|".join(f"^(?:{calls.pattern})" for calls in (FILE_CALLS, PROCESS_CALLS, SLEEPS))


class LongerCall(NamedTuple):
    """A call of the system, and how much longer than others a rank is in it (ns of an iteration)."""

    name: str
    ns: float


def longer_call(case: Case, rank: int) -> LongerCall | None:
    """Return the call in which the main thread of a rank is longest beyond those of others (their median); else None.

    Calls count in which a host is by itself (OWN_CALLS), in the iterations of the window.
    """
    calls, task = case.run.calls, case.run.task_by_rank[rank]
    others = [other for other in case.run.rank_tasks if other != task]
    name = pl.col("name").cast(pl.String)
    own = calls.filter(pl.col("kind") == "os", name.str.contains(OWN_CALLS))
    of_main = own.join(main_rows(calls), on=["task", "row"], how="semi")
    sums = case.kept_calls(of_main).group_by("task", name).agg(pl.col("ns").sum())
    of_rank = sums.filter(task=task)
    if of_rank.is_empty() or not others:
        return None
    # A rank without the call is in it for no time.
    every = pl.DataFrame({"task": others}).join(of_rank.select("name"), how="cross")
    usual = every.join(sums, on=["task", "name"], how="left").group_by("name").agg(pl.col("ns").fill_null(0).median())
    more = of_rank.join(usual, on="name").select("name", more=pl.col("ns") - pl.col("ns_right")).sort("more", "name")
    call, ns = more.row(-1)
    return LongerCall(call, ns / case.step_count) if ns > 0 else None

"""The call of the system in which the host of one rank is longer than those of others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.hosts.system_calls import FILE_CALLS, PROCESS_CALLS, SLEEPS
from nsys2prv.analysis.host import main_rows
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import one_span, time_in

# Calls that keep a host by themselves. In others it waits for threads or ranks that are late for reasons of their own.
OWN_CALLS = "|".join(f"^(?:{calls.pattern})" for calls in (FILE_CALLS, PROCESS_CALLS, SLEEPS))


class LongerCall(NamedTuple):
    """A call of the system, and how much longer than others a rank is in it (ns of an iteration)."""

    name: str
    ns: float


def longer_call(case: Case, rank: int) -> LongerCall | None:
    """Return the call in which the launching threads of a rank are longest beyond those of others; None: none.

    Others count by their median. Calls count in which a host is by itself (OWN_CALLS), in the iterations of the window,
    but for the time in which it waits for its device: there it may sleep and delay nobody.
    """
    run, task = case.run, case.run.task_by_rank[rank]
    others = [other for other in run.rank_tasks if other != task]
    of_system = (pl.col("kind") == "os") & text_contains("name", OWN_CALLS)
    own = run.calls.filter(of_system, pl.col("row").is_in(_threads(case)))
    by_name = _without_waits(case, case.kept_calls(own)).group_by("task", pl.col("name").cast(pl.String))
    sums = by_name.agg(pl.col("ns").sum())
    of_rank = sums.filter(task=task)
    if of_rank.is_empty() or not others:
        return None
    # A rank without the call is in it for no time.
    every = pl.DataFrame({"task": others}).join(of_rank.select("name"), how="cross")
    usual = every.join(sums, on=["task", "name"], how="left").group_by("name").agg(pl.col("ns").fill_null(0).median())
    more = of_rank.join(usual, on="name").select("name", more=pl.col("ns") - pl.col("ns_right")).sort("more", "name")
    call, ns = more.row(-1)
    return LongerCall(call, ns / case.step_count) if ns > 0 else None


def _threads(case: Case) -> list[int]:
    """Return the rows of the threads that launch, and of the main threads of tasks that launch nothing."""
    launching = case.run.work.select("task", row="caller_row").drop_nulls().unique()
    others = main_rows(case.run.calls).join(launching, on="task", how="anti")
    return sorted({*launching["row"], *others["row"]})


def _without_waits(case: Case, calls: pl.DataFrame) -> pl.DataFrame:
    """Return calls with `ns` less the time in which the same thread waits for its device."""
    rows = calls["row"].unique().sort().to_numpy()
    waits = case.device_waits.filter(pl.col("row").is_in(rows.tolist()))
    if waits.is_empty():
        return calls
    axis = axis_over(one_span(int(calls["start"].min()), int(calls["end"].max())), len(rows))  # type: ignore[arg-type]
    waiting = axis.union(*(np.searchsorted(rows, waits["row"]), *(waits[c].to_numpy() for c in ("start", "end"))))
    thread = np.searchsorted(rows, calls["row"].to_numpy())
    begin, end = (time_in(waiting, axis.at(thread, calls[c].to_numpy())) for c in ("start", "end"))
    return calls.with_columns(pl.col("ns") - pl.Series(end - begin))

"""Kernels that are launched again and again to be timed, as an autotuner does to choose between configurations."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.devices.elementwise_chains import ELEMENTWISE
from nsys2prv.analysis.facts.devices.kernels_in_order import kernels_in_order
from nsys2prv.analysis.facts.devices.rounds import Rounds, rounds_of_streams
from nsys2prv.analysis.facts.thresholds import RECORDS_OF_TIMED
from nsys2prv.analysis.frames import KERNEL
from nsys2prv.analysis.interval_frames import at_longest

# A round is the kernel that is timed, or that and a kernel that empties the cache before it (do_bench of Triton).
LONGEST_TIMED_ROUND = 2
EVENT_CALLS, STREAM_WAIT = r"^cu(?:da)?(?:EventRecord|StreamWaitEvent)", "StreamWaitEvent"


class TimedKernels(NamedTuple):
    """Kernels that are launched to be timed.

    `name`: the one that is timed most often; `launches`: how often any is timed (on a device, in an iteration); `ns`:
    the time from the first to the last kernel of each row of rounds (of a device, in an iteration); `at`: begin of the
    longest row (ns).
    """

    name: str
    launches: float
    ns: float
    at: int


@once
def find_timed(case: Case) -> TimedKernels | None:
    """Find kernels that repeat between pairs of event records; None without any.

    A solver may repeat one or two kernels as often, but it records no events before and after each. Nor does a program
    of several streams: its process launches more than the rounds of one, and streams wait for its events.
    """
    rounds = [one for one in rounds_of_streams(case) if one.length <= LONGEST_TIMED_ROUND]
    if not rounds:
        return None
    rows = _with_calls(case, _rows(case, rounds).drop_nulls(["first", "last"]))
    rows = rows.filter(pl.col("records") - pl.col("waits") >= RECORDS_OF_TIMED.value * pl.col("rounds"))
    if rows.is_empty():
        return None
    by_name = rows.group_by("name").agg(pl.col("launches").sum()).sort("launches", "name")
    launches, time, at = rows.select(pl.col("launches", "ns").sum(), at=at_longest("ns")).row(0)
    return TimedKernels(by_name["name"][-1], case.of_device(launches), case.of_device(time), at)


def _rows(case: Case, rounds: list[Rounds]) -> pl.DataFrame:
    """Return columns of each row of rounds.

    task, name (of the kernel that is timed), launches, start, ns, `first` and `last` (when these kernels are launched),
    and `length` of a round.
    """
    ordered = kernels_in_order(case)
    found = pl.DataFrame(rounds, schema=dict.fromkeys(Rounds._fields, pl.Int64), orient="row")
    at_begin, at_end = (ordered[rows] for rows in (found["first"], found["first"] + found["kernels"] - 1))
    # In rounds of two kernels the elementwise one empties the cache.
    other = ordered[found["first"] + found["length"] - 1]
    cleared = at_begin["family"].cast(pl.String) == ELEMENTWISE
    return pl.DataFrame(
        {
            "task": at_begin["task"],
            "name": other["name"].cast(pl.String).zip_with(cleared, at_begin["name"].cast(pl.String)),
            "launches": found["kernels"] // found["length"],
            "start": at_begin["start"],
            "ns": at_end["end"] - at_begin["start"],
            "first": at_begin["launched"],
            "last": at_end["launched"],
            "length": found["length"],
        }
    )


def _with_calls(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Add what a row's process does from its first to its last launch.

    `records`: how many events it records; `waits`: how often it lets a stream wait for one; `rounds`: how many rounds
    all kernels make that it launches then.
    """
    name = pl.col("name").cast(pl.String)
    calls = case.run.calls.filter(pl.col("kind") == "cuda", name.str.contains(EVENT_CALLS))
    is_wait = name.str.contains(STREAM_WAIT, literal=True)
    records, waits = (calls.filter(which).select("task", at="start") for which in (~is_wait, is_wait))
    launches = case.run.work.filter(pl.col("kind") == KERNEL).select("task", at="launched").drop_nulls()
    return rows.with_columns(
        records=_between(rows, records), waits=_between(rows, waits), rounds=_between(rows, launches) / rows["length"]
    )


def _between(rows: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
    """Return how many calls (task, `at`) of a row's process lie behind its `first` launch, up to its `last` one."""
    counted = calls.sort("at").with_columns(count=pl.int_range(1, pl.len() + 1).over("task"))
    first, last = (
        rows.select("task", at=edge)
        .with_row_index("row")
        .sort("at")
        .join_asof(counted, on="at", by="task", check_sortedness=False)
        .sort("row")["count"]
        .fill_null(0)
        for edge in ("first", "last")
    )
    return last - first

"""Time in which hosts on the critical path wait in the system or load data.

If a different rank is last in each iteration, no single rank is late and no device is idle for long: only the critical
path shows the loss.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.launchers import calls_inside
from nsys2prv.analysis.facts.ranks.late_groups import find_group
from nsys2prv.analysis.facts.ranks.latecomers import latecomer_ranks
from nsys2prv.analysis.facts.ranks.recurring_cause import recurring_causes
from nsys2prv.analysis.facts.starved import load_ranges
from nsys2prv.analysis.facts.system_time import system_time
from nsys2prv.analysis.graph.critical_path import HOST
from nsys2prv.analysis.interval_frames import covered_by
from nsys2prv.intervals.grouped import Axis, axis_over
from nsys2prv.intervals.spans import Indices, Spans, difference, intersection, one_span, time_in
from nsys2prv.run.trace_rows import NO_ROW

_ON_THREADS = (pl.col("kind") == HOST) & (pl.col("row") != NO_ROW)


class OnPath(NamedTuple):
    """Host time on the critical path that no late rank explains (ns of an iteration), and the call with most of it.

    `calls`: how many calls of that name the path is in, and `call_ns` how long (ns of an iteration).
    """

    unexplained_ns: float
    call: str | None
    calls: int = 0
    call_ns: float = 0.0


# Of a run of one process, whose devices idle when its host waits, and of a run without devices.
NOTHING = OnPath(0.0, None)


def in_system(case: Case) -> OnPath:
    """Return the time of the path in OS calls of its threads, outside of CUDA, MPI and ranges that load data."""
    if case.run.rank_count < 2 or not case.run.devices:
        return NOTHING
    rows = case.analysis.explanation.path.filter(_ON_THREADS)["row"].unique().sort().to_numpy()
    pieces, axis = _host_pieces(case, len(rows))
    pieces = pieces.with_columns(thread=pl.Series(np.searchsorted(rows, pieces["row"].to_numpy())))
    chosen = difference(system_time(case.run, rows, axis), _loading(case, rows, axis))
    known = _unexplained(case, pieces, axis, "thread", chosen)
    if not known:
        return NOTHING
    on_path = intersection(chosen, axis.union(*(pieces[c].to_numpy() for c in ("thread", "start", "end"))))
    by_name = calls_inside(case.run, rows, axis, on_path, pl.col("kind") == "os")
    name, ns, calls = by_name.row(0)
    return OnPath(known, name, calls, ns / case.step_count)


def _loading(case: Case, rows: Indices, axis: Axis) -> Spans:
    """Return the time of ranges that load data, on an axis of threads in order of their rows."""
    ranges = load_ranges(case.analysis).filter(pl.col("row").is_in(pl.Series(rows).implode()))
    thread = pl.Series(np.searchsorted(rows, ranges["row"].to_numpy()))
    return covered_by(axis, ranges.with_columns(thread=thread), "thread")


def loading(case: Case) -> OnPath:
    """Return the time of the path in ranges of the main threads that load data."""
    if case.run.rank_count < 2 or not case.run.devices:
        return NOTHING
    pieces, axis = _host_pieces(case, len(case.run.tasks))
    return OnPath(_unexplained(case, pieces, axis, "task", covered_by(axis, load_ranges(case.analysis), "task")), None)


def waiting_title(cost: str, name: str, in_turn: bool) -> str:
    """Return the title for devices that wait for hosts in a call or range, or for ranks that do so `in_turn`."""
    if in_turn:
        return f"Ranks wait {cost} for each other's hosts, which are in `{name}`"
    return f"The device waits {cost} while the host is in `{name}`"


def _host_pieces(case: Case, groups: int) -> tuple[pl.DataFrame, Axis]:
    """Return the pieces (PIECE) of host work on threads, and an axis of as many rows or tasks."""
    pieces = case.analysis.explanation.path.filter(_ON_THREADS)
    return pieces, axis_over(one_span(case.analysis.window.start, case.analysis.window.end), groups)


def _unexplained(case: Case, pieces: pl.DataFrame, axis: Axis, by: str, chosen: Spans) -> float:
    """Return the time of host pieces inside `chosen` (ns of an iteration) that no late rank explains.

    All hosts together gain no more than `host=0` does.
    """
    if pieces.is_empty():
        return 0.0
    start, end = (axis.at(pieces[by].to_numpy(), pieces[c].to_numpy()) for c in ("start", "end"))
    inside = pieces.select("task", ns=pl.Series(time_in(chosen, end) - time_in(chosen, start)))
    by_task = inside.group_by("task").agg(pl.col("ns").sum())
    by_rank = {case.run.rank(task): ns / case.step_count for task, ns in by_task.rows()}
    delays = [(one.member, one.net_ns) for one in latecomer_ranks(case)]
    delays += [(one.rank, one.ns) for one in recurring_causes(case)]
    late = sum(min(ns, by_rank.get(rank, 0.0)) for rank, ns in delays)
    if group := find_group(case):
        late = max(late, min(group.net_ns, sum(by_rank.get(rank, 0.0) for rank in group.members)))
    # Delays in single iterations are late ranks, too.
    late = max(late, case.gain("delay=0"))
    return float(max(min(sum(by_rank.values()), case.gain("host=0")) - late, 0.0))

"""Time of the critical path in which hosts do one thing, such as to wait in the system, and no late rank explains it.

Ranks that meet in collectives wait for the latest host, on whichever rank it is. Where another rank is the latest one
each time, no device is idle for long, and no single rank is late: only the path shows what hosts lose together.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.critical_path import HOST
from nsys2prv.analysis.findings.case import Case
from nsys2prv.analysis.findings.latecomers import late_ranks
from nsys2prv.analysis.findings.starved import load_ranges
from nsys2prv.analysis.frames import covered_by
from nsys2prv.intervals.grouped import Axis, axis_over
from nsys2prv.intervals.spans import Spans, difference, one_span, time_in

_SYSTEM = pl.col("kind") == "os"


class OnPath(NamedTuple):
    """Host time on the critical path (ns of an iteration): `common`, without what late ranks cost; call with most."""

    common: float
    call: str | None


def in_system(case: Case) -> OnPath:
    """Return the time of the path in OS calls of its threads, outside of CUDA and MPI."""
    pieces, axis = _host_pieces(case, "row")
    rows = pl.col("row").is_in(pieces["row"].unique().implode())
    calls = case.run.calls.filter(rows)
    system, others = (covered_by(axis, calls.filter(which), "row") for which in (_SYSTEM, ~_SYSTEM))
    known = _common(case, pieces, axis, "row", difference(system, others))
    if not known:
        return OnPath(0.0, None)
    on_path = axis.union(*(pieces[c].to_numpy() for c in ("row", "start", "end")))
    of_system = calls.filter(_SYSTEM)
    start, end = (axis.at(of_system["row"].to_numpy(), of_system[c].to_numpy()) for c in ("start", "end"))
    inside = of_system.select("name", ns=pl.Series(time_in(on_path, end) - time_in(on_path, start)))
    by_name = inside.group_by(pl.col("name").cast(pl.String)).agg(pl.col("ns").sum())
    return OnPath(known, by_name.sort("ns", "name", descending=[True, False])["name"][0])


def loading(case: Case) -> OnPath:
    """Return the time of the path in ranges of the main threads that load data."""
    pieces, axis = _host_pieces(case, "task")
    loads = covered_by(axis, load_ranges(case.run), "task")
    return OnPath(_common(case, pieces, axis, "task", loads), None)


def _host_pieces(case: Case, by: str) -> tuple[pl.DataFrame, Axis]:
    """Return the pieces (PIECE) of host work on threads, and an axis of their rows or tasks."""
    path = case.found.explanation.path
    pieces = path.filter(pl.col("kind") == HOST, pl.col("row") >= 0)
    groups = {"row": len(case.run.streams), "task": len(case.run.tasks)}[by]
    low, high = case.found.window.start, case.found.window.end
    return pieces, axis_over(one_span(low, high), groups)


def _common(case: Case, pieces: pl.DataFrame, axis: Axis, by: str, chosen: Spans) -> float:
    """Return the time of host pieces inside `chosen` (ns of an iteration) that no late rank explains.

    All hosts together gain no more than `host=0` does. A run of one process has no common time.
    """
    if len(case.run.tasks) < 2 or pieces.is_empty():
        return 0.0
    start, end = (axis.at(pieces[by].to_numpy(), pieces[c].to_numpy()) for c in ("start", "end"))
    inside = pieces.select("task", ns=pl.Series(time_in(chosen, end) - time_in(chosen, start)))
    by_task = inside.group_by("task").agg(pl.col("ns").sum())
    by_rank = {case.run.rank(task): ns / case.steps for task, ns in by_task.rows()}
    late = sum(min(one.net_ns, by_rank.get(one.member, 0.0)) for one in late_ranks(case))
    # Delays in single iterations are late ranks, too.
    late = max(late, case.gain("delay=0"))
    return float(max(min(sum(by_rank.values()), case.gain("host=0")) - late, 0.0))

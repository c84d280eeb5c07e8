"""Reports of different runs told apart, so that a folder of unrelated reports does not become one trace.

The rule looks for what makes reports one run. What differs proves little: ranks of one run may have other programs,
hosts and versions of nsys, begin late, or have wrong clocks. docs/commands.md has it with its reasons.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import polars as pl

from nsys2prv.errors import UsageError
from nsys2prv.families.mpi.mpi_communicators import is_of_mpi
from nsys2prv.families.nccl.nccl_anchors import anchored_communicators
from nsys2prv.model.global_ids import pid_of
from nsys2prv.model.words import few
from nsys2prv.report.identity import Identity
from nsys2prv.report.report import open_report
from nsys2prv.run.connected_components import connected_components
from nsys2prv.run.hosts import Host, host_numbers
from nsys2prv.run.ranks import stated_ranks
from nsys2prv.run.report_events import active_processes, event_span
from nsys2prv.run.report_summary import Summary

# Time (ns) between two reports that are still at one time: clocks of hosts under NTP differ by far less.
SAME_TIME_TOLERANCE_NS = 1_000_000_000
# Environment variables in which batch systems put the id of a job.
JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "COBALT_JOBID")
# The first year in which a run can have been recorded.
FIRST_YEAR = 2010
# Runs that a message names on lines of their own, and in one line.
RUNS_NAMED, RUNS_IN_LINE = 4, 2
# What can be done about reports of several runs, in lines of a message.
NEXT_STEP = (
    "give the reports of one run, take each report for a run with `nsys2prv batch --group %name`,\n  "
    "put those of each run into a folder for `nsys2prv batch`, or insist on one with --one-run"
)
# The argument of a command that names its program: a script, or a module behind Python's -m.
SCRIPT = re.compile(r".+\.(py|sh|jl|R|pl)")


class ReportFacts(NamedTuple):
    """Facts by which a report belongs to others. `span`: UTC (ns) of session start and last event, None if unknown.

    `processes`: host, pid and name of each process with events; `programs`: names; `ranks`: as the report states them;
    `communicators`: ids of NCCL's, which no other run has.
    """

    path: Path
    session: str
    job: tuple[str, str] | None
    span: tuple[int, int] | None
    processes: frozenset[Hashable]
    programs: frozenset[str]
    ranks: frozenset[int]
    communicators: frozenset[str]


class _Group(NamedTuple):
    """Reports, as indices, and all that they state."""

    reports: tuple[int, ...]
    jobs: frozenset[tuple[str, str]]
    programs: frozenset[str]
    ranks: frozenset[int]

    def with_(self, other: _Group) -> _Group:
        return _Group(
            (*self.reports, *other.reports),
            self.jobs | other.jobs,
            self.programs | other.programs,
            self.ranks | other.ranks,
        )


def check_one_run(summaries: Sequence[Summary], hosts: Sequence[Host], insists: bool) -> tuple[str, ...]:
    """Refuse reports of several runs, or return a warning of them if the user `insists`.

    Raises UsageError, which names the runs and the next step.
    """
    if len(summaries) < 2 or len(separate_runs(_extracted_facts(summaries, hosts))) < 2:
        return ()
    # The chosen families may lack the last events and the processes.
    facts = _recorded_facts(summaries, hosts)
    if len(runs := separate_runs(facts)) < 2:
        return ()
    if insists:
        return (f"the reports seem to be of {len(runs)} runs, and are one trace: {_named(runs, facts)}",)
    raise _several_runs(runs, facts)


def _several_runs(runs: Sequence[Sequence[int]], facts: Sequence[ReportFacts]) -> UsageError:
    """Return the error on reports of several runs: the cause, some of the runs, and the next step, on lines."""
    names = "\n  ".join(_names(runs, facts, RUNS_NAMED))
    return UsageError(
        f"{len(facts)} reports are of {len(runs)} runs: other times, no job, process, ranks or communicator in common"
        f"\n  {names}\n  Next: {NEXT_STEP}"
    )


def several_runs_warning(facts: Sequence[ReportFacts]) -> Iterator[str]:
    """Warn of reports of several runs, where nothing is refused."""
    if len(runs := separate_runs(facts)) > 1:
        yield (
            f"the reports seem to be of {len(runs)} runs: {_named(runs, facts)} "
            "(translate, analyze and align take one run at a time)"
        )


def separate_runs(facts: Sequence[ReportFacts]) -> list[list[int]]:
    """Group reports (indices) by run, in order of their first report.

    Reports are of one run that have a session, a process or an NCCL communicator in common, or that were recorded at
    one time (SAME_TIME_TOLERANCE_NS) and not in two jobs; a report without a job joins all with which it was recorded
    at one time. Then groups of such reports join that have no rank twice: those of one
    program whose ranks are known, and those of one job and program. Reports without a time or an event go with the
    others.
    """
    placed = [r for r, f in enumerate(facts) if f.span is not None]
    edges = [*_in_common(facts), *_at_one_time([(r, facts[r]) for r in placed])]
    component = connected_components(len(facts), edges)
    groups = [
        _group(facts, [r for r in range(len(facts)) if component[r] == c]) for c in sorted(set(component.tolist()))
    ]
    known = [g for g in groups if any(facts[r].span for r in g.reports)]
    joined: list[_Group] = []
    for group in sorted(known, key=lambda g: min(span[0] for r in g.reports if (span := facts[r].span))):
        place = next((n for n, other in enumerate(joined) if _complete(other, group)), None)
        if place is None:
            joined.append(group)
        else:
            joined[place] = joined[place].with_(group)
    others = [r for g in groups if g not in known for r in g.reports]
    runs = [sorted(g.reports) for g in joined] or [[]]
    runs[0] = sorted([*runs[0], *others])
    return sorted(runs)


def _in_common(facts: Sequence[ReportFacts]) -> Iterator[tuple[int, int]]:
    """Yield pairs of reports with a session, a process or a communicator in common."""
    first: dict[Hashable, int] = {}
    for r, fact in enumerate(facts):
        sessions = [("session", fact.session)] if fact.session else []
        for key in (*sessions, *fact.processes, *fact.communicators):
            if (other := first.setdefault(key, r)) != r:
                yield other, r


def _at_one_time(facts: Iterable[tuple[int, ReportFacts]]) -> Iterator[tuple[int, int]]:
    """Yield pairs of reports that were recorded at one time, unless they are of two jobs."""
    latest: dict[tuple[str, str] | None, tuple[int, int]] = {}
    for r, fact in sorted(facts, key=lambda item: item[1].span or (0, 0)):
        begin, end = fact.span or (0, 0)
        for job, (until, other) in latest.items():
            if begin <= until + SAME_TIME_TOLERANCE_NS and (job == fact.job or None in (job, fact.job)):
                yield other, r
        latest[fact.job] = max(latest.get(fact.job, (end, r)), (end, r))


def _group(facts: Sequence[ReportFacts], reports: Sequence[int]) -> _Group:
    """Return a group of some reports, given by their indices."""
    own = [facts[r] for r in reports]
    return _Group(
        tuple(reports),
        frozenset(f.job for f in own if f.job is not None),
        frozenset().union(*(f.programs for f in own)),
        frozenset().union(*(f.ranks for f in own)),
    )


def _complete(a: _Group, b: _Group) -> bool:
    """Return True if two groups of reports at different times are parts of one run."""
    one_program = bool(a.programs & b.programs) or not a.programs or not b.programs
    one_job, two_jobs = bool(a.jobs & b.jobs), bool(a.jobs) and bool(b.jobs) and not a.jobs & b.jobs
    ranked = bool(a.ranks) and bool(b.ranks)
    return not (a.ranks & b.ranks or two_jobs) and one_program + one_job + ranked >= 2


def facts_of(
    paths: Sequence[Path],
    identities: Sequence[Identity],
    hosts: Sequence[Host],
    active: Sequence[Iterable[int]],
    ends: Sequence[int | None],
) -> list[ReportFacts]:
    """Return the facts of reports, without communicators.

    `active`: ids (pid) of the processes with events in each report; `ends`: its last event, ns on its clock.
    """
    host_of, ranks = host_numbers(hosts), stated_ranks(identities, hosts)
    found = []
    for r, (path, identity) in enumerate(zip(paths, identities, strict=True)):
        names = {p.pid: p.name.rsplit("/", 1)[-1] for p in identity.processes}
        working = {pid: names.get(pid, "") for pid in active[r]}
        script = _script(identity.command)
        of_mpi = {p.mpi_rank for p in identity.processes if p.mpi_rank is not None}
        found.append(
            ReportFacts(
                path,
                identity.session,
                next(((v, identity.environment[v]) for v in JOB_VARIABLES if identity.environment.get(v)), None),
                _span(identity, ends[r]),
                frozenset((host_of[r], pid, name) for pid, name in working.items()),
                frozenset([script] if script else filter(None, working.values())),
                frozenset(of_mpi or [rank for rank in [ranks[r]] if rank is not None]),
                frozenset(),
            )
        )
    return found


def _extracted_facts(summaries: Sequence[Summary], hosts: Sequence[Host]) -> list[ReportFacts]:
    """Return the facts of reports by their extracted events."""
    active = [{pid_of(g) for g in s.places["process"].drop_nulls()} for s in summaries]
    return _facts(summaries, hosts, active, [_last_extracted(s) for s in summaries])


def _recorded_facts(summaries: Sequence[Summary], hosts: Sequence[Host]) -> list[ReportFacts]:
    """Return the facts of reports by all of their events."""
    active, ends = [], []
    for summary in summaries:
        with open_report(summary.path) as report:
            active.append(active_processes(report, [p.pid for p in summary.identity.processes]))
            span = event_span(report)
            ends.append(span and span[1])
    return _facts(summaries, hosts, active, ends)


def _facts(
    summaries: Sequence[Summary], hosts: Sequence[Host], active: Sequence[Iterable[int]], ends: Sequence[int | None]
) -> list[ReportFacts]:
    """Return the facts of reports, with communicators: see facts_of."""
    found = facts_of([s.path for s in summaries], [s.identity for s in summaries], hosts, active, ends)
    return [fact._replace(communicators=_communicators(s)) for fact, s in zip(found, summaries, strict=True)]


def _communicators(summary: Summary) -> frozenset[str]:
    """Return the ids of a report's NCCL communicators, of its operations and its anchors."""
    # MPI numbers the communicators of each run anew.
    members = summary.members.filter(~is_of_mpi(pl.col("communicator")))["communicator"]
    return frozenset([*members, *anchored_communicators(summary.anchors)])


def _script(command: Sequence[str]) -> str:
    """Return the script or module that a command line names; empty if it names none."""
    for before, word in pairwise(command):
        if before == "-m" or SCRIPT.fullmatch(word):
            return word.rsplit("/", 1)[-1]
    return ""


def _span(identity: Identity, end: int | None) -> tuple[int, int] | None:
    """Return the UTC (ns) of a report's session start and last event; None without a wall clock or an event."""
    if identity.utc_epoch_ns is None or end is None:
        return None
    # Events may come before the session, as those of a process that was there.
    last = identity.utc_epoch_ns + end - identity.time_shift_ns
    return min(identity.utc_epoch_ns, last), max(identity.utc_epoch_ns, last)


def _last_extracted(summary: Summary) -> int | None:
    """Return the last time of what was extracted, ns on the report's clock; without any, of all that it holds."""
    times = pl.concat([summary.uses["last"], summary.anchors["end"]]).drop_nulls()
    if times.len():
        return int(times.max())  # type: ignore[arg-type]
    if not summary.off:
        return None
    with open_report(summary.path) as report:
        return (event_span(report) or (None, None))[1]


def _names(runs: Sequence[Sequence[int]], facts: Sequence[ReportFacts], most: int) -> list[str]:
    """Name the first runs, and count the others."""
    more = [f"and {len(runs) - most} more"] if len(runs) > most else []
    return [*(_described(run, facts) for run in runs[:most]), *more]


def _named(runs: Sequence[Sequence[int]], facts: Sequence[ReportFacts]) -> str:
    return ", ".join(_names(runs, facts, RUNS_IN_LINE)).replace(", and ", " and ")


def _began(utc_ns: int) -> str:
    """Return when a run began as text. A clock that counts from the start of its machine says nothing."""
    began = datetime.fromtimestamp(utc_ns // 10**9, UTC)
    return f"{began:%Y-%m-%d %H:%M:%S} UTC" if began.year >= FIRST_YEAR else "time unknown"


def _described(run: Sequence[int], facts: Sequence[ReportFacts]) -> str:
    """Name a run by its folder or reports, and say what it is."""
    own, full = [facts[r].path for r in run], [f.path.resolve() for f in facts]
    folder = Path(os.path.commonpath([full[r].parent for r in run]))
    alone = not any(folder in path.parents for r, path in enumerate(full) if r not in run)
    shown = str(folder) if any(path.is_absolute() for path in own) else os.path.relpath(folder)
    named = shown if alone else few([str(path) for path in own], 2)
    program = few(sorted(frozenset[str]().union(*(facts[r].programs for r in run))), 1)
    begins = [span[0] for r in run if (span := facts[r].span)]
    began = _began(min(begins)) if begins else ""
    count = f"{len(run)} reports" if len(run) > 1 else "1 report"
    return f"{named} ({', '.join(filter(None, [count, program, began]))})"

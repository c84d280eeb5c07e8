"""The contents of reports, without translating them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from nsys2prv.families.device.graphs import HIDDEN_KERNELS
from nsys2prv.families.device_work import DEVICE_TABLES
from nsys2prv.families.host.cuda_api import FAMILY as CUDA_API
from nsys2prv.families.host.cuda_api import LAUNCHING, NOT_READY
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.unsupported_tables import defines, why_left_out
from nsys2prv.model.device_kinds import DeviceKind
from nsys2prv.model.global_ids import process_of
from nsys2prv.model.words import few
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.report import schema
from nsys2prv.report.discover import find_reports
from nsys2prv.report.identity import Identity
from nsys2prv.report.report import Report, open_report
from nsys2prv.run.hosts import find_hosts
from nsys2prv.run.ranks import report_ranks
from nsys2prv.run.report_events import active_processes, event_span, pids_in
from nsys2prv.run.separate_runs import facts_of, several_runs_warning

UNDECLARED = "nsys2prv does not know this table: please report it"


class UnusedTable(NamedTuple):
    """A table that no family draws: its rows, and the reason."""

    rows: int
    reason: str


class Inspection(NamedTuple):
    """The contents of one report. Times are ns; `rank`: see report_ranks.

    `active`: pids of the processes that have events; `on_streams`: of those with device work; `rows`: by family;
    `left_out`: by table that no family draws; `losses`: diagnostics of the report; `warnings`: ours.
    """

    name: str
    path: Path
    host: str
    rank: int | None
    processes: tuple[tuple[int, str], ...]
    active: tuple[int, ...]
    on_streams: tuple[int, ...]
    gpus: tuple[tuple[int, str], ...]
    profiler: str
    nsys_version: str
    schema_version: str
    utc_epoch_ns: int | None
    first_ns: int | None
    last_ns: int | None
    rows: Mapping[str, int]
    left_out: Mapping[str, UnusedTable]
    losses: tuple[str, ...]
    warnings: tuple[str, ...]


def inspect(inputs: Iterable[Path | str] | Path | str, nsys: Path | None = None) -> tuple[list[Inspection], list[str]]:
    """Inspect reports: each in order of rank, and warnings about all of them together. Raises ReportError."""
    alone, identities, names = [], [], []
    for path in find_reports(inputs, nsys):
        with open_report(path) as report:
            alone.append(_inspect(report))
            identities.append(report.identity)
            names.append(report.name)
    hosts = find_hosts(identities, names, {})
    ranks = report_ranks(identities, names, hosts)
    facts = facts_of([i.path for i in alone], identities, hosts, [i.active for i in alone], [i.last_ns for i in alone])
    found = [
        i._replace(rank=rank if len(_on_device(i, identity)) < 2 else None)
        for i, identity, rank in zip(alone, identities, ranks, strict=True)
    ]
    found.sort(key=lambda i: (i.rank is None, i.rank or 0, i.host, i.name))
    return found, [*several_runs_warning(facts), *_compare(found)]


@on_polars_thread
def _inspect(report: Report) -> Inspection:
    """Return the contents of a report, as far as it alone tells them."""
    identity = report.identity
    span = event_span(report)
    processes = tuple((p.pid, p.name) for p in identity.processes)
    rows = {f.name: f.rows_in(report) for f in FAMILIES if f.draws}
    return Inspection(
        name=report.path.name,
        path=report.path,
        host=identity.host,
        # The rank is known only from all reports together.
        rank=None,
        processes=processes,
        active=active_processes(report, [pid for pid, _ in processes]),
        on_streams=pids_in(report, DEVICE_TABLES) if len(processes) > 1 else (),
        gpus=tuple((g.id, g.name) for g in identity.gpus),
        profiler=identity.profiler,
        nsys_version=identity.nsys_version,
        schema_version=identity.schema_version,
        utc_epoch_ns=identity.utc_epoch_ns,
        first_ns=span and span[0],
        last_ns=span and span[1],
        rows=rows,
        left_out=_left_out(report),
        losses=tuple(report.diagnostics()),
        warnings=tuple(_warnings(report, rows)),
    )


def _on_device(found: Inspection, identity: Identity) -> list[int]:
    """Return the active processes on a GPU, else all active ones: several have no rank in common."""
    with_context = {pid for pid, _ in identity.contexts} | set(found.on_streams)
    return [pid for pid in found.active if pid in with_context] or list(found.active)


def _left_out(report: Report) -> dict[str, UnusedTable]:
    """Return the tables of events that no family draws, with their rows."""
    drawn = {t.name for f in FAMILIES for t in f.draws}
    known = [t for t in report.event_tables() if t.name not in drawn]
    others = [n for n in report.unknown_tables() if not defines(n, report.tables.columns(n))]
    rows = {**{t.name: report.rows(t) for t in known}, **{n: report.tables.count(n) for n in others}}
    return {name: UnusedTable(n, why_left_out(name) or UNDECLARED) for name, n in rows.items() if n}


def _warnings(report: Report, rows: Mapping[str, int]) -> list[str]:
    """Return what is missing or odd in a report. `rows`: by family."""
    launches = rows[CUDA_API.name]
    work = sum(report.rows(t) for t in DEVICE_TABLES)
    warnings = []
    if not any(rows.values()):
        warnings.append("no events: check the nsys profile options and that the capture range was reached")
    done, failed = _launching(report)
    if done and not work:
        warnings.append("CUDA calls without any device activity: the profiler could not collect it")
    if failed:
        codes = few([f"{calls:,} with error {code}" for code, calls in failed])
        warnings.append(f"CUDA calls that failed, so that no work of theirs ran: {codes}")
    if report.rows(schema.GRAPH_TRACE):
        warnings.append(HIDDEN_KERNELS)
    if cut := _open_ranges(report):
        warnings.append(f"{cut} NVTX ranges were still open when the capture ended")
    if launches and (orphans := _orphans(report)):
        warnings.append(f"{orphans} device activities were launched outside the capture range: their calls are missing")
    return warnings


def _launching(report: Report) -> tuple[int, list[tuple[int, int]]]:
    """Count the CUDA calls that put work on a device, and those that failed to by error, the most frequent first."""
    calls = report.table(schema.RUNTIME, ["nameId", "returnValue"])
    # To make a graph puts no work on a device.
    patterns = [pattern for kind, pattern in LAUNCHING.items() if kind is not DeviceKind.GRAPH]
    named = report.strings.filter(pl.col("text").str.contains("|".join(patterns)))
    launching = calls.filter(pl.col("nameId").is_in(named["id"].implode()))
    by_code = launching.group_by("returnValue").len().sort("len", "returnValue", descending=[True, False])
    counted = dict(by_code.rows())
    return counted.pop(0, 0), [(code, calls) for code, calls in counted.items() if code != NOT_READY]


def _open_ranges(report: Report) -> int:
    ranges = report.table(schema.NVTX, ["end", "eventType"])
    return ranges.filter(
        pl.col("end").is_null() & pl.col("eventType").is_in([*schema.PUSH_POP, *schema.START_END])
    ).height


def _orphans(report: Report) -> int:
    """Count the device activities without a call of their correlation id in the report."""
    key = ["process", "correlationId"]
    calls = report.table(schema.RUNTIME, ["globalTid", "correlationId"]).select(
        process=process_of(pl.col("globalTid")), correlationId="correlationId"
    )
    work = pl.concat(report.table(t, ["globalPid", "correlationId"]) for t in DEVICE_TABLES).select(
        process=process_of(pl.col("globalPid")), correlationId="correlationId"
    )
    return work.filter(pl.col("correlationId") > 0).join(calls, on=key, how="anti").height


def _compare(reports: Sequence[Inspection]) -> list[str]:
    """Return a warning for each family that some reports have and others lack."""
    warnings = []
    for family in FAMILIES:
        lacking = [i.name for i in reports if not i.rows.get(family.name)]
        if family.draws and lacking and len(lacking) < len(reports):
            warnings.append(
                f"{family.name}: {len(reports) - len(lacking)} of {len(reports)} reports have it; not {few(lacking)}"
            )
    return warnings

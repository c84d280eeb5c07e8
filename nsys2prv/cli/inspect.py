"""`nsys2prv inspect`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import INPUTS, format_option, group_of, group_options
from nsys2prv.cli.text_table import aligned
from nsys2prv.model.words import few, short
from nsys2prv.pipeline.workers.execution import Execution

if TYPE_CHECKING:
    from nsys2prv.commands.inspect import Inspection


# Processes and GPUs of a report that are named.
LISTED = 16


@click.command("inspect")
@INPUTS
@format_option(
    "json",
    help="Form of the list.",
    more="`json` has `reports`, a list of objects, and `warnings` about all of them together",
)
@group_options(Execution, "nsys")
def command(inputs: tuple[Path, ...], form: str, **given: Any) -> None:
    """Show the contents of reports, and what is missing or odd.

    INPUT are reports (.sqlite, .nsys-rep), parquetdir/arrowdir exports, files of nvprof, or folders that hold them.

    \b
    Examples:
      nsys2prv inspect reports/
      nsys2prv inspect reports/ --json
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.commands.inspect import inspect
    from nsys2prv.report.diagnostics import who_says

    reports, remarks = inspect(inputs, group_of(Execution, given).nsys)
    if form == "json":
        say_json({"reports": [_as_json(r) for r in reports], "warnings": remarks})
        return
    alone, repeated = _said(reports)
    for report, own in zip(reports, alone, strict=True):
        click.echo(_about(report, own))
    click.echo(_table(reports))
    for text, names in repeated:
        # Those that all say it need no names.
        named = f" ({few(names)})" if len(names) < len(reports) else ""
        click.echo(f"{who_says(len(names), len(reports))}{named}: {text}")
    for remark in remarks:
        click.echo(f"warning: {remark}")


def _as_json(report: Inspection) -> dict[str, Any]:
    return {**report._asdict(), "left_out": {table: out._asdict() for table, out in report.left_out.items()}}


def _said(reports: Sequence[Inspection]) -> tuple[list[list[str]], list[tuple[str, list[str]]]]:
    """Return what each report says alone, and what several say, with their names.

    Sentences that differ in numbers alone, as of processes, are one.
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.report.diagnostics import by_text

    alone: list[list[str]] = [[] for _ in reports]
    repeated = []
    # The same name may be that of two reports.
    for text, own in by_text((str(n), report.losses) for n, report in enumerate(reports)):
        if len(own) == 1:
            alone[int(own[0])].append(text)
        else:
            repeated.append((text, [reports[int(n)].name for n in own]))
    return alone, repeated


def _about(report: Inspection, own: Sequence[str]) -> str:
    """Return the lines on a report. `own`: the diagnostics that it alone has."""
    gpus = few([f"{number} {name}" for number, name in report.gpus], LISTED) or "none"
    rank = "?" if report.rank is None else report.rank
    span = "no events"
    if report.first_ns is not None and report.last_ns is not None:
        span = f"{(report.last_ns - report.first_ns) / 1e9:.6f} s of events from {report.first_ns} ns"
    lines = [
        report.name,
        f"  host {report.host or '?'}, rank {rank}, processes: {_processes(report)}",
        f"  GPUs: {gpus}",
        f"  {report.profiler} {report.nsys_version or '?'}, schema {report.schema_version or '?'}, {span}",
    ]
    lines += [f"  left out: {short(table)}, {out.rows:,} rows ({out.reason})" for table, out in report.left_out.items()]
    lines += [f"  warning: {w}" for w in report.warnings]
    lines += [f"  the report says: {text}" for text in own]
    return "\n".join(lines) + "\n"


def _processes(report: Inspection) -> str:
    """Name the processes that have events, and count the others."""
    active = [f"{name}:{pid}" for pid, name in report.processes if pid in report.active]
    others = len(report.processes) - len(active)
    counted = [f"{others} without events"] if others else []
    return "; ".join([*([few(active, LISTED)] if active else []), *counted]) or "none"


def _table(reports: Sequence[Inspection]) -> str:
    """Return a table of row counts, ranks by families, without families that no report has."""
    families = [f for f in reports[0].rows if any(r.rows[f] for r in reports)]
    head = ["rank", "report", *families]
    body = [["?" if r.rank is None else str(r.rank), r.name, *(f"{r.rows[f]:,}" for f in families)] for r in reports]
    return aligned(head, body)

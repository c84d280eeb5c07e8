"""`nsys2prv align`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from nsys2prv.cli.columns import aligned
from nsys2prv.cli.options import INPUTS, JOBS, NSYS, aligning, run_options
from nsys2prv.cli.written import writable, write_text
from nsys2prv.commands.align import align_reports
from nsys2prv.run.clocks import Alignment
from nsys2prv.run.clocks.plot import plot_svg


@click.command("align")
@INPUTS
@aligning
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    callback=writable,
    metavar="FILE",
    help="Write residuals over time as SVG, one colour a host.",
)
@NSYS
@JOBS
def command(
    inputs: tuple[Path, ...],
    align: str,
    offsets: Path | None,
    hosts: Path | None,
    as_json: bool,
    plot: Path | None,
    nsys: Path | None,
    jobs: int | None,
) -> None:
    """Show how the reports' clocks are put on one, and how well they agree.

    Residuals tell how far the end of a collective on a rank lies from the median rank's; violations count what happens
    before its cause, with UTC alone and as aligned.

    \b
    Examples:
      nsys2prv align reports/
      nsys2prv align reports/ --json > clocks.json
      nsys2prv align reports/ --plot residuals.svg
    """
    found = align_reports(inputs, options=run_options(align, offsets, hosts), nsys=nsys, jobs=jobs)
    if plot is not None:
        write_text(plot, plot_svg(found))
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        click.echo(_table(found))
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=as_json)


_COLUMNS = (
    *("report", "host", "rank", "method", "offset us", "slope ppm", "anchors"),
    *("residual us: median", "p95", "max", "violations before", "after"),
)


def _us(ns: int | None) -> str:
    return "-" if ns is None else f"{ns / 1e3:,.1f}"


def _table(found: Alignment) -> str:
    body = [
        (
            r.name,
            r.host,
            "?" if r.rank is None else str(r.rank),
            r.method,
            f"{r.offset_ns / 1e3:,.1f}",
            f"{r.slope_ppm:.2f}",
            str(r.anchors),
            *map(_us, (r.residual_median_ns, r.residual_p95_ns, r.residual_max_ns)),
            str(r.violations_before),
            str(r.violations_after),
        )
        for r in found.reports
    ]
    told = f"Offsets are added to UTC-aligned time; {found.reference} is the reference."
    return f"{aligned(_COLUMNS, body)}\n{told}"

"""`nsys2prv align`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import INPUTS, SectionedCommand, format_option, group_of, group_options
from nsys2prv.cli.output_file import file_option, force_option, write_text
from nsys2prv.cli.text_table import aligned
from nsys2prv.pipeline.workers.execution import QUIET_OPTION, Execution
from nsys2prv.run.run_options import RunOptions

if TYPE_CHECKING:
    from nsys2prv.run.clocks import Alignment


@click.command("align", cls=SectionedCommand)
@INPUTS
@group_options(RunOptions, "align", "offsets", "hosts", "one_run")
@format_option(
    "json",
    help="Form of the alignment.",
    more="`json` has `reference`, and `reports`, a list of objects. Warnings go to stderr then",
)
@file_option("--plot", "Write residuals over time as SVG, one color a host.")
@force_option()
@group_options(Execution, without=[QUIET_OPTION])
def command(inputs: tuple[Path, ...], form: str, plot: Path | None, **given: Any) -> None:
    """Show how the clocks of the reports are aligned, and how well they agree.

    INPUT are reports (.sqlite, .nsys-rep), parquetdir/arrowdir exports, files of nvprof, or folders that hold them. All
    of them together are one run.

    A residual is how far the end of a collective on a rank lies from the median rank's. A violation is an event before
    its cause; they are counted with UTC alone and as aligned. The error of a clock is at most what causality leaves
    open: nobody leaves a collective before the last has entered, and nothing is received before it was sent.

    \b
    Examples:
      nsys2prv align reports/
      nsys2prv align reports/ --json > clocks.json
      nsys2prv align reports/ --plot residuals.svg
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.commands.align import align
    from nsys2prv.run.clocks.plot import plot_svg

    found = align(inputs, options=group_of(RunOptions, given), execution=group_of(Execution, given))
    if plot is not None:
        write_text(plot, plot_svg(found), form)
    if form == "json":
        say_json(found.to_json())
    else:
        click.echo(_table(found))
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=form == "json")


_HEADINGS = (
    *("report", "host", "rank", "method", "offset us", "slope ppm", "anchors"),
    *("residual us: median", "p95", "max", "error us: at most", "violations before", "after"),
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
            *map(_us, (r.residual_median_ns, r.residual_p95_ns, r.residual_max_ns, r.error_bound_ns)),
            str(r.violations_before),
            str(r.violations_after),
        )
        for r in found.reports
    ]
    meaning = f"Offsets are added to UTC-aligned time; {found.reference} is the reference."
    return f"{aligned(_HEADINGS, body)}\n{meaning}"

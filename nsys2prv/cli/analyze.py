"""`nsys2prv analyze`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsys2prv.analysis.question import Question
from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import DETAILS, INPUTS, SectionedCommand, format_option, group_of, group_options, option
from nsys2prv.cli.output_file import file_option, force_option, write_text
from nsys2prv.cli.sections import SECTIONS, sections_named
from nsys2prv.errors import UsageError
from nsys2prv.families.selection import STATES_OPTION, Selection
from nsys2prv.pipeline.workers.execution import QUIET_OPTION, Execution
from nsys2prv.run.run_options import RunOptions

if TYPE_CHECKING:
    from nsys2prv.analysis.analysis_record import Analysis


@click.command("analyze", cls=SectionedCommand)
@INPUTS
@group_options(Selection, "families", "time", "nvtx", "classes", without=[STATES_OPTION])
@group_options(RunOptions)
@group_options(Question)
@option(
    "--show",
    metavar="SECTION,...|all",
    help=f"Print these tables in place of the verdict: {', '.join(SECTIONS)}, or all.",
    more="With `--format csv` these tables only; `kernels`, `api`, `memory` and `nvtx` have the columns of `nsys "
    "stats` then",
)
@DETAILS
@format_option(
    "json",
    "csv",
    help="Form of the figures.",
    more="`csv` has every table after a line `# name`, and a single one without",
)
@option(
    "--held",
    is_flag=True,
    help="Print tables in which GPU metrics of kernels are plain means of their samples, not estimates.",
    more="Plain means mix into a class what ran beside its kernels",
)
@file_option("--plot", "Write the roofline of --ncu as SVG, a disk a class of kernels.")
@file_option("--html", "Write one self-contained page, too.")
@force_option()
@group_options(Execution, without=[QUIET_OPTION])
def command(inputs: tuple[Path, ...], form: str, html: Path | None, plot: Path | None, **given: Any) -> None:
    """Show where a run spends its time: efficiency, and findings by what they cost; with --show tables.

    INPUT are reports (.sqlite, .nsys-rep), parquetdir/arrowdir exports, files of nvprof, or folders that hold them. All
    of them together are one run.

    \b
    Examples:
      nsys2prv analyze reports/
      nsys2prv analyze reports/ --show efficiency,kernels
      nsys2prv analyze reports/ --show kernels --format csv > kernels.csv
      nsys2prv analyze reports/ --phase forward --phase backward --nccl useful --show all
      nsys2prv analyze reports/ --format json > run.json
      nsys2prv analyze reports/ --html run.html
      nsys2prv analyze reports/ --ncu kernels.csv --show kernels,ncu,roofline --plot roofline.svg
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.cli.analysis_csv import csv_of
    from nsys2prv.cli.analysis_text import text_of
    from nsys2prv.commands.analyze import analyze

    show, held, details = given.pop("show"), given.pop("held"), given.pop("details")
    if plot is not None and not given["ncu"]:
        raise UsageError("--plot draws the roofline of the kernels that --ncu FILE has; give such a file")
    chosen = sections_named(show) if show else frozenset(SECTIONS)
    found = analyze(
        inputs,
        question=group_of(Question, given),
        selection=group_of(Selection, given),
        options=group_of(RunOptions, given),
        execution=group_of(Execution, given),
        in_part=True,
    )
    if form == "json":
        say_json(found.as_json())
    elif form == "csv":
        click.echo(csv_of(found, chosen), nl=False)
        for text in found.host_samples().unread if "host-samples" in chosen else ():
            click.echo(f"nsys2prv: {text}", err=True)
    elif show or held:
        click.echo(text_of(found, held, details, chosen))
    else:
        _print_verdict(found, inputs, details)
    if plot is not None and found.ncu is not None:
        # Loaded on request: most analyses do without.
        from nsys2prv.analysis.ncu.plot import plot_svg

        write_text(plot, plot_svg(found.ncu.roofline, found.ncu.roofs), form)
    if html:
        # Loaded on request: most analyses do without.
        from nsys2prv.commands.inputs import inputs_in_commands, run_name
        from nsys2prv.page.page import page

        write_text(html, page(found, run_name(inputs), inputs_in_commands(inputs)), form)


def _print_verdict(found: Analysis, inputs: Sequence[Path], details: bool) -> None:
    """Print the verdict, in color on a terminal, and with `details` the remarks that hardly matter."""
    from nsys2prv.cli.first_screen import verdict_of
    from nsys2prv.cli.screen import terminal
    from nsys2prv.cli.severity_colors import colored, takes_colors

    verdict = verdict_of(found, inputs, terminal())
    click.echo(colored(verdict) if takes_colors(sys.stdout, os.environ) else verdict)
    for text in found.run.details if details else ():
        click.echo(f"detail: {text}")

"""`nsys2prv analyze`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nsys2prv.cli.options import DASK, INPUTS, JOBS, NSYS, chosen_arguments, selecting
from nsys2prv.cli.written import writable, write_text
from nsys2prv.model.metric_names import TENSOR


@click.command("analyze")
@INPUTS
@selecting
@click.option(
    "--nccl",
    type=click.Choice(["communication", "useful"]),
    default="communication",
    show_default=True,
    help="What NCCL kernels count as: TALP takes them for useful, BasicAnalysis for communication.",
)
@click.option(
    "--window",
    default="steady",
    show_default=True,
    metavar="steady|device|trace|RANGE",
    help="Time that figures cover: steady iterations, all device activity, all of the run, or an NVTX range.",
)
@click.option(
    "--phase",
    "phases",
    multiple=True,
    metavar="RANGE",
    help="Efficiency of what is launched in this NVTX range, too; # stands for a number. May be repeated.",
)
@click.option(
    "--iteration",
    metavar="RANGE",
    help="The NVTX range of an iteration, such as 'step #' (default: found by itself where numbered).",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    default=[TENSOR],
    show_default=True,
    help="GPU metrics by kernel class, by part of their name. May be repeated.",
)
@click.option(
    "--by",
    type=click.Choice(["family", "class"]),
    default="family",
    show_default=True,
    help="How fine classes of kernels are told apart for metrics.",
)
@click.option("--held", is_flag=True, help="Show the plain average of samples inside kernels instead of the estimate.")
@click.option("--gaps", type=click.IntRange(min=0), default=5, show_default=True, help="Idle times to name a device.")
@click.option("--format", "form", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    callback=writable,
    metavar="FILE",
    help="Write one self-contained page, too.",
)
@NSYS
@JOBS
@DASK
@click.option(
    "--memory",
    metavar="SIZE",
    help="What all processes may take, such as 4GiB (default: workers half of what is free, the analysis all).",
)
@click.option(
    "--spill-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where intermediate files go (default: TMPDIR, with --dask the current folder).",
)
@click.option("--keep-going", is_flag=True, help="Leave out reports that cannot be read, and name them.")
def command(
    inputs: tuple[Path, ...],
    nccl: str,
    window: str,
    phases: tuple[str, ...],
    iteration: str | None,
    by: str,
    held: bool,
    gaps: int,
    form: str,
    html: Path | None,
    **chosen: Any,
) -> None:
    """Tell where the time of a run goes: efficiency, overlap, metrics by kernel class, iterations, idle times.

    \b
    Examples:
      nsys2prv analyze reports/
      nsys2prv analyze reports/ --phase forward --phase backward --nccl useful
      nsys2prv analyze reports/ --format json > run.json
      nsys2prv analyze reports/ --html run.html
    """
    how = chosen_arguments(**chosen)
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.analysis.html import page
    from nsys2prv.analysis.result import Question
    from nsys2prv.cli.tables import csv_of, text_of
    from nsys2prv.commands.analyze import analyze

    question = Question(nccl, window, phases, iteration, by, gaps)  # type: ignore[arg-type]
    found = analyze(inputs, question=question, **how)
    if form == "json":
        click.echo(json.dumps(found.as_json(), indent=2))
    elif form == "csv":
        click.echo(csv_of(found), nl=False)
    else:
        click.echo(text_of(found, held))
    if html:
        write_text(html, page(found))

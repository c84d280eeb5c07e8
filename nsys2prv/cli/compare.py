"""`nsys2prv compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nsys2prv.analysis.question import Question
from nsys2prv.cli.options import INPUT, format_option, group_of, group_options, option


@click.command("compare")
@click.argument("run_a", type=INPUT)
@click.argument("run_b", type=INPUT)
@group_options(Question, "nccl", "window", "phases", "iteration", "metrics")
@option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Number of kernels to show, the most changed ones first (all in JSON and CSV).",
)
@format_option("json", "csv", help="Form of the comparison.")
def command(run_a: Path, run_b: Path, top: int, form: str, **given: Any) -> None:
    """Compare the figures of two runs (a report, or a folder of reports, each) side by side.

    \b
    Example:
      nsys2prv compare before/ after/
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.analysis.compare import compare
    from nsys2prv.cli.comparison_text import comparison_text
    from nsys2prv.commands.analyze import analyze

    question = group_of(Question, given)
    table = compare(*(analyze(run, question=question) for run in (run_a, run_b)))
    if form == "json":
        click.echo(json.dumps(table.to_dicts(), indent=2))
    elif form == "csv":
        click.echo(table.write_csv(), nl=False)
    else:
        click.echo(f"a: {run_a}\nb: {run_b}\n{comparison_text(table, top)}")

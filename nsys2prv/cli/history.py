"""`nsys2prv history`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import db_option, format_option, option
from nsys2prv.cli.output_file import file_option, force_option, write_text
from nsys2prv.cli.text_table import aligned, ms
from nsys2prv.model.words import short

if TYPE_CHECKING:
    import polars as pl

HEAD = (
    "run",
    "name",
    "program",
    "began",
    "ranks",
    "GPUs",
    "iterations",
    "mean ms",
    "median ms",
    "parallel %",
    "whole %",
    "first finding",
)
NAME_WIDTH, FINDING_WIDTH = 30, 60


@click.command("history")
@db_option()
@option(
    "--program",
    metavar="TEXT",
    help="Only runs with this text in the name of their program, in capital or small letters.",
)
@format_option(
    "json",
    "csv",
    help="Form of the table.",
    more="`json` has `runs`, a list of objects, and `csv` has the same columns",
)
@file_option("--plot", "Write iteration times and efficiencies over the runs as SVG, a panel a program.")
@force_option()
def command(db: str, program: str | None, form: str, plot: Path | None) -> None:
    """Show the runs of a database over time, the oldest first.

    `mean ms` and `median ms` are of the steady iterations, each from its first device activity to that of the next one.
    `whole %` is the parallel efficiency with the time between iterations.

    \b
    Examples:
      nsys2prv history --db runs.db
      nsys2prv history --db runs.db --program python3 --plot history.svg
      nsys2prv history --db runs.db --json > history.json
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.commands.history import history

    found = history(db, program=program)
    if plot is not None:
        write_text(plot, found.as_svg(), form)
    if form == "json":
        say_json(found.as_json())
    elif form == "csv":
        click.echo(found.runs.write_csv(), nl=False)
    else:
        click.echo(_table(found.runs) if found.runs.height else "No runs are recorded.")


def _table(runs: pl.DataFrame) -> str:
    return aligned(HEAD, [_row(run) for run in runs.to_dicts()])


def _row(run: dict[str, object]) -> list[str]:
    began, lengths = run["began"] or run["recorded"], (run["iteration_mean_ns"], run["iteration_ns"])
    return [
        str(run["run"]),
        short(str(run["name"]), NAME_WIDTH),
        short(str(run["program"]), NAME_WIDTH),
        f"{began:%Y-%m-%d %H:%M}",
        *(str(run[name]) for name in ("ranks", "gpus", "iterations")),
        *(ms(ns) if isinstance(ns, float) else "" for ns in lengths),
        *(
            f"{100 * of_run:.1f}" if isinstance(of_run, float) else ""
            for of_run in (run["parallel"], run["whole_iterations"])
        ),
        short(str(run["finding"] or ""), FINDING_WIDTH),
    ]

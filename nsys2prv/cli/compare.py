"""`nsys2prv compare`."""

from __future__ import annotations

import json
from pathlib import Path

import click
import polars as pl

from nsys2prv.analysis.compare import compare
from nsys2prv.analysis.result import Question
from nsys2prv.cli.columns import aligned
from nsys2prv.cli.options import INPUT
from nsys2prv.commands.analyze import analyze
from nsys2prv.model.metric_names import TENSOR


@click.command("compare")
@click.argument("run_a", type=INPUT)
@click.argument("run_b", type=INPUT)
@click.option(
    "--nccl",
    type=click.Choice(["communication", "useful"]),
    default="communication",
    show_default=True,
    help="What NCCL kernels count as.",
)
@click.option("--window", default="device", show_default=True, metavar="device|trace|RANGE", help="See `analyze`.")
@click.option("--phase", "phases", multiple=True, metavar="RANGE", help="See `analyze`.")
@click.option("--iteration", metavar="RANGE", help="See `analyze`.")
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", default=[TENSOR], show_default=True, help="See `analyze`."
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Kernels to show, those that changed most (all in JSON and CSV).",
)
@click.option("--format", "form", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True)
def command(
    run_a: Path,
    run_b: Path,
    nccl: str,
    window: str,
    phases: tuple[str, ...],
    iteration: str | None,
    metrics: tuple[str, ...],
    top: int,
    form: str,
) -> None:
    """Put the figures of two runs (a report, or a folder of them, each) side by side.

    \b
    Example:
      nsys2prv compare before/ after/
    """
    question = Question(nccl, window, phases, iteration)  # type: ignore[arg-type]
    table = compare(*(analyze(run, question=question, metrics=metrics) for run in (run_a, run_b)))
    if form == "json":
        click.echo(json.dumps(table.to_dicts(), indent=2))
    elif form == "csv":
        click.echo(table.write_csv(), nl=False)
    else:
        click.echo(f"a: {run_a}\nb: {run_b}\n{_text(table, top)}")


def _text(table: pl.DataFrame, top: int) -> str:
    of_kernels = pl.col("what").str.starts_with("kernel")
    # One that only one run has took no time in the other.
    change = (pl.col("b").fill_null(0) - pl.col("a").fill_null(0)).abs()
    kernels = table.filter(of_kernels).sort(change, "name", descending=[True, False]).head(top)
    shown = pl.concat([table.filter(~of_kernels), kernels])
    rows = [
        [what[:60], name[:60], _number(a), _number(b), _number(difference), "" if change is None else f"{change:+.1f}"]
        for what, name, a, b, difference, change in shown.rows()
    ]
    return aligned(["what", "name", "a", "b", "b - a", "change %"], rows)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value == round(value) and abs(value) >= 100 else f"{value:.4f}"

"""`nsys2prv translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nsys2prv.cli.options import INPUTS, OUTPUT, translate_arguments, translating


@click.command("translate")
@INPUTS
@OUTPUT
@translating
@click.option("--force", is_flag=True, help="Write over an existing trace.")
@click.option(
    "--dry-run", is_flag=True, help="Say what would be written, how large and how slow to load; write nothing."
)
@click.option("--summary", is_flag=True, help="Close with the efficiency and overlap of the run: the short `analyze`.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(
    inputs: tuple[Path, ...],
    output: Path,
    force: bool,
    dry_run: bool,
    summary: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Translate the reports of one run into one Paraver trace.

    INPUT are reports (.sqlite, .nsys-rep), parquetdir/arrowdir exports, or folders that hold them. All of them
    together are one run.

    \b
    Examples:
      nsys2prv translate reports/ -o trace
      nsys2prv translate job.*.sqlite -o trace --skip osrt --ranks 0-3
      nsys2prv translate reports/ -o step5 --nvtx "step 5"
      nsys2prv translate reports/ -o small --min-duration 10us --metrics-every 10ms
    """
    how = translate_arguments(**given)
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.cli.summary import summary_text
    from nsys2prv.commands.translate import translate

    result = translate(inputs, output, force=force, dry_run=dry_run, quiet=quiet, **how)
    if not quiet:
        click.echo(summary_text(result))
    if summary:
        # Loaded only when it is asked for: most translations do without.
        from nsys2prv.cli.tables import short_text_of
        from nsys2prv.commands.analyze import analyze

        same = ("selection", "options", "nsys", "jobs", "dask", "keep_going", "memory", "spill_dir")
        click.echo("\n" + short_text_of(analyze(inputs, metrics=(), **{name: how[name] for name in same})))

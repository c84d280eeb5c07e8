"""`nsys2prv translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import (
    DETAILS,
    FORCE,
    INPUTS,
    OUTPUT,
    SectionedCommand,
    format_option,
    group_of,
    group_options,
    option,
)
from nsys2prv.families.selection import Selection
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.write.trace_output import TraceOutput
from nsys2prv.run.run_options import RunOptions


@click.command("translate", cls=SectionedCommand)
@INPUTS
@OUTPUT
@group_options(Selection)
@group_options(RunOptions)
@group_options(TraceOutput)
@group_options(Execution)
@FORCE
@option(
    "--dry-run",
    is_flag=True,
    help="Show what would be written, how large and how slow to load; write nothing.",
    more="Shows the size of each family and of the whole, the temporary files and memory that reading takes, and what "
    "Paraver needs to load the trace",
)
@DETAILS
@format_option(
    "json",
    help="Form of the summary.",
    more="`json` has counts by family, what was left out, warnings, times and sizes; with `--summary` the figures of "
    "[`analyze`](#analyze), too",
)
def command(
    inputs: tuple[Path, ...], output: Path, force: bool, dry_run: bool, details: bool, form: str, **given: Any
) -> None:
    """Translate the reports of one run into one Paraver trace.

    INPUT are reports (.sqlite, .nsys-rep), parquetdir/arrowdir exports, files of nvprof, or folders that hold them.
    All of them together are one run; folders with reports of several runs are refused.

    \b
    Examples:
      nsys2prv translate reports/ -o trace
      nsys2prv translate job.*.sqlite -o trace --skip osrt --ranks 0-3
      nsys2prv translate reports/ -o step5 --nvtx "step 5"
      nsys2prv translate reports/ -o small --min-duration 10us --metrics-every 10ms
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.cli.translation_text import summary_text
    from nsys2prv.commands.translate import translate

    selection, options = group_of(Selection, given), group_of(RunOptions, given)
    writing, execution = group_of(TraceOutput, given), group_of(Execution, given)
    result = translate(
        inputs,
        output,
        selection=selection,
        options=options,
        execution=execution,
        writing=writing,
        force=force,
        dry_run=dry_run,
    )
    if form == "json":
        say_json(result.as_json())
        return
    if not execution.quiet:
        click.echo(summary_text(result, details))
    if result.analysis is not None:
        # Loaded on request: most translations do without.
        from nsys2prv.cli.analysis_text import short_text_of

        click.echo("\n" + short_text_of(result.analysis))

"""`nsys2prv record`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nsys2prv.analysis.question import Question
from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import INPUTS, SectionedCommand, db_option, format_option, group_of, group_options, option
from nsys2prv.families.selection import STATES_OPTION, Selection
from nsys2prv.pipeline.workers.execution import QUIET_OPTION, Execution
from nsys2prv.run.run_options import NCU_OPTION, RunOptions


@click.command("record", cls=SectionedCommand)
@INPUTS
@db_option(
    more="[What it holds](database.md). It is made if needed. The password of a server is best left to `~/.pgpass` or "
    "PGPASSWORD"
)
@option("--name", metavar="NAME", help="What the run is called (default: the name of its folder or report).")
@option(
    "--prv",
    type=click.Path(path_type=Path),
    metavar="TRACE",
    help="Where the trace of the run lies, to be found again.",
)
@group_options(Selection, "families", "time", "nvtx", "classes", without=[STATES_OPTION])
@group_options(RunOptions, without=[NCU_OPTION])
@group_options(Question, "nccl", "window", "phases", "iteration", "metrics")
@format_option("json", help="Form of the result.")
@group_options(Execution, without=[QUIET_OPTION])
def command(inputs: tuple[Path, ...], db: str, name: str | None, prv: Path | None, form: str, **given: Any) -> None:
    """Record the figures of a run in a database: efficiency, findings, iterations by rank, kernel classes.

    INPUT are reports (.sqlite, .nsys-rep), parquetdir/arrowdir exports, files of nvprof, or folders that hold them. All
    of them together are one run.

    Any number of jobs may record at once. A run is in the database whole, or not at all. The same reports recorded
    again under the same name replace what was recorded.

    \b
    Examples:
      nsys2prv record reports/ --db runs.db
      nsys2prv record reports/ --db runs.db --name nightly
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.commands.record import record
    from nsys2prv.database.connection import address, display_name

    done = record(
        inputs,
        db,
        name=name,
        trace=prv,
        question=group_of(Question, given),
        selection=group_of(Selection, given),
        options=group_of(RunOptions, given),
        execution=group_of(Execution, given),
    )
    # Without the password of a URL.
    shown = display_name(address(done.db))
    if form == "json":
        say_json({"db": shown, "run": done.number, "name": done.name, "replaced": done.replaced})
    else:
        again = ", in the place of the same reports" if done.replaced else ""
        click.echo(f"Recorded {done.name} as run {done.number} in {shown}{again}")

"""`nsys2prv export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import INPUTS, SectionedCommand, format_option, group_of, group_options, option
from nsys2prv.cli.text_table import aligned
from nsys2prv.families.selection import STATES_OPTION, Selection
from nsys2prv.pipeline.workers.execution import QUIET_OPTION, Execution
from nsys2prv.run.run_options import NCU_OPTION, RunOptions


@click.command("export", cls=SectionedCommand)
@INPUTS
@option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder for the files; it is created.",
)
@group_options(Selection, "families", "time", "nvtx", "classes", without=[STATES_OPTION])
@group_options(RunOptions, without=[NCU_OPTION])
@option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Only GPU metrics with this text in their name (default: all). May be repeated.",
)
@option("--force", is_flag=True, help="Write over a former export.")
@format_option("json", help="Form of the list of files.")
@group_options(Execution, without=[QUIET_OPTION])
def command(
    inputs: tuple[Path, ...], output: Path, metrics: tuple[str, ...], force: bool, form: str, **given: Any
) -> None:
    """Write the frames of a run as Parquet files: kernels, NCCL, copies, calls, ranges, messages, samples.

    INPUT are reports (.sqlite, .nsys-rep), parquetdir/arrowdir exports, files of nvprof, or folders that hold them. All
    of them together are one run.

    All ranks are on one clock; times are ns from the run's begin.

    \b
    Examples:
      nsys2prv export reports/ -o frames
      nsys2prv export reports/ -o frames --nvtx 'step 5' --metric 'tensor active'
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.commands.export import export
    from nsys2prv.commands.load import EVERY_METRIC

    written = export(
        inputs,
        output,
        selection=group_of(Selection, given),
        options=group_of(RunOptions, given),
        execution=group_of(Execution, given),
        metrics=metrics or EVERY_METRIC,
        force=force,
    )
    if form == "json":
        frames = [{"name": one.name, "path": str(one.path), "rows": one.rows} for one in written.files]
        say_json({"frames": frames, "warnings": list(written.warnings)})
        return
    folder = output.absolute()
    rows = [[one.name, str(one.path.relative_to(folder)), f"{one.rows:,}"] for one in written.files]
    click.echo(aligned(["frame", "file", "rows"], rows))
    click.echo(f"Wrote {len(written.files)} files to {output}")
    for text in written.warnings:
        click.echo(f"warning: {text}")

"""`nsys2prv whatif`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nsys2prv.analysis.question import Question
from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import INPUTS, SectionedCommand, format_option, group_of, group_options, option
from nsys2prv.families.selection import STATES_OPTION, Selection
from nsys2prv.pipeline.workers.execution import QUIET_OPTION, Execution
from nsys2prv.run.run_options import NCU_OPTION, RunOptions


@click.command("whatif", cls=SectionedCommand)
@INPUTS
@option(
    "--set",
    "changes",
    multiple=True,
    required=True,
    metavar="CHANGE",
    help="Change to make: transfer*F, launch*F, host*F, imbalance*F, delay*F, `rank N*F` or `rank N=median` for what a "
    "rank computes, or NAME*F for kernels by family, class, name or phase; TARGET=0 is TARGET*0. May be repeated: all "
    "are made together.",
)
@group_options(Selection, "time", "nvtx", "classes", without=[STATES_OPTION])
@group_options(RunOptions, without=[NCU_OPTION])
@group_options(Question, "window", "iteration")
@format_option("json", help="Form of the predictions.")
@group_options(Execution, without=[QUIET_OPTION])
def command(inputs: tuple[Path, ...], changes: tuple[str, ...], form: str, **given: Any) -> None:
    """Predict the iteration times of a run if something took another time.

    INPUT are reports (.sqlite, .nsys-rep), parquetdir/arrowdir exports, files of nvprof, or folders that hold them. All
    of them together are one run.

    \b
    Targets:
      transfer      collectives and messages, after the last rank has come
      launch        launching calls, and from a launch to the begin of its work
      host          all work of hosts between their calls
      imbalance     distance of the compute of each rank and GPU from the mean
      delay         host work beyond its usual length at that place
      rank N, NAME  kernels of a rank; of a family, class, name or phase

    \b
    Examples:
      nsys2prv whatif reports/ --set transfer=0
      nsys2prv whatif reports/ --set 'GEMM*0.5' --set 'rank 3=median'
      nsys2prv whatif reports/ --set delay=0 --json
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.cli.whatif_text import prediction_text
    from nsys2prv.commands.whatif import what_if

    found = what_if(
        inputs,
        changes,
        question=group_of(Question, given),
        selection=group_of(Selection, given),
        options=group_of(RunOptions, given),
        execution=group_of(Execution, given),
    )
    if form == "json":
        say_json(found.as_json())
    else:
        click.echo(prediction_text(found))

"""`nsys2prv cut`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import FORCE, INPUT, OUTPUT, format_option, group_of, group_options, option
from nsys2prv.cli.text_table import ms
from nsys2prv.model.quantities import parse_span
from nsys2prv.model.units import bytes_text
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.write.trace_output import TraceOutput


@click.command("cut")
@click.argument("trace", type=INPUT)
@OUTPUT
@option(
    "--time",
    required=True,
    metavar="FROM:TO",
    help="The span to keep, such as 1.5s:2s; an empty side is open.",
    more="Units are ns, us, ms and s (the default)",
)
@group_options(TraceOutput, "compress")
@FORCE
@format_option("json", help="Form of the result.", more="`json` has the files, the time, and counts of lines")
@group_options(Execution, "quiet")
def command(trace: Path, output: Path, time: str, force: bool, form: str, **given: Any) -> None:
    """Cut a written trace to a span of its time.

    TRACE is a .prv or .prv.gz that nsys2prv wrote. Memory does not depend on its size.

    \b
    Examples:
      nsys2prv cut trace.prv -o part --time 1.5s:2s
      nsys2prv cut trace.prv.gz -o end --time 90s: --compress
    """  # fmt: skip
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.commands.cut import cut

    quiet = group_of(Execution, given).quiet
    result = cut(trace, output, parse_span(time), compress=group_of(TraceOutput, given).compress, force=force)
    if form == "json":
        say_json(result.as_json())
    elif not quiet:
        endings = [path.suffix for path in result.beside]
        files = f"{result.prv} ({', '.join(endings)})" if endings else f"{result.prv}"
        size = f"{result.lines:,} lines of {result.read:,}, {bytes_text(result.size)}"
        click.echo(f"Wrote {files}: {ms(result.start)} to {ms(result.end)} ms of {trace.name}, {size}.")
        if result.start:
            click.echo(f"  time 0 of it is {ms(result.start)} ms of {trace.name}")
        if result.split:
            click.echo(f"  {result.split:,} messages left out: they reach across a border")
        if missing := [ending for ending in (".pcf", ".row") if ending not in endings]:
            lost = " or ".join(missing)
            click.echo(f"  warning: no {lost} beside {trace}: the part lacks these labels, too")

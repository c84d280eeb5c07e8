"""`nsys2prv cut`."""

from __future__ import annotations

from pathlib import Path

import click

from nsys2prv.cli.options import INPUT, OUTPUT, span
from nsys2prv.commands.cut import cut
from nsys2prv.errors import bytes_text


@click.command("cut")
@click.argument("trace", type=INPUT)
@OUTPUT
@click.option(
    "--time", required=True, metavar="FROM:TO", help="The span to keep, such as 1.5s:2s; an empty side is open."
)
@click.option("--compress", is_flag=True, help="Write OUT.prv.gz instead of OUT.prv.")
@click.option("--force", is_flag=True, help="Write over an existing trace.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(trace: Path, output: Path, time: str, compress: bool, force: bool, quiet: bool) -> None:
    """Cut a written trace to a span of its time.

    TRACE is a .prv or .prv.gz of ours. Memory does not depend on its size.

    \b
    Examples:
      nsys2prv cut trace.prv -o part --time 1.5s:2s
      nsys2prv cut trace.prv.gz -o end --time 90s: --compress
    """  # fmt: skip
    result = cut(trace, output, span(time), compress=compress, force=force)
    if not quiet:
        endings = [path.suffix for path in result.beside]
        files = f"{result.prv} ({', '.join(endings)})" if endings else f"{result.prv}"
        what = f"{result.lines:,} lines of {result.read:,}, {bytes_text(result.size)}"
        click.echo(f"Wrote {files}: {result.start} to {result.end} ns of {trace.name}, {what}.")
        if result.split:
            click.echo(f"  {result.split:,} messages left out: they reach across a border")
        if missing := [ending for ending in (".pcf", ".row") if ending not in endings]:
            lost = " or ".join(missing)
            click.echo(f"  warning: no {lost} beside {trace}: the part goes without the labels in it")

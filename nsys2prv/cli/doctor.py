"""`nsys2prv doctor`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from nsys2prv.commands.doctor import Check, examine


@click.command("doctor")
@click.option("--nsys", type=click.Path(path_type=Path), metavar="PATH", help="The nsys to look at.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(nsys: Path | None, form: str) -> None:
    """Look at what nsys2prv needs and can use: packages, nsys, Paraver, memory, disk.

    A line each: ok, missing (something cannot be done without), low, or broken (nothing works), and what to do. The
    exit code is 1 if anything is broken.

    \b
    Examples:
      nsys2prv doctor
      nsys2prv doctor --format json
    """
    checks = examine(nsys)
    click.echo(json.dumps([c._asdict() for c in checks], indent=2) if form == "json" else _text(checks))
    if any(c.state == "broken" for c in checks):
        click.get_current_context().exit(1)


def _text(checks: list[Check]) -> str:
    names, states = (max(len(getattr(c, field)) for c in checks) for field in ("name", "state"))
    lines = []
    for c in checks:
        lines.append(f"{c.state:{states}}  {c.name:{names}}  {c.found}")
        if c.next_step:
            lines.append(f"{'':{states}}  {'':{names}}  next: {c.next_step}")
    return "\n".join(lines)

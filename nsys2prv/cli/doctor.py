"""`nsys2prv doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import format_option, group_of, group_options
from nsys2prv.pipeline.workers.execution import Execution

if TYPE_CHECKING:
    from nsys2prv.commands.doctor import Check


@click.command("doctor")
@group_options(Execution, "nsys")
@format_option(
    "json",
    help="Form of the checks.",
    more="`json` has `checks`, a list of objects with `name`, `state`, `found`, `next_step`",
)
def command(form: str, **given: Any) -> None:
    """Check what nsys2prv needs and can use on this machine: packages, nsys, Paraver, memory, disk.

    Each check is one line: ok, missing (something cannot be done), low, or broken (nothing works), and what to do. The
    exit code is 1 if anything is broken.

    \b
    Examples:
      nsys2prv doctor
      nsys2prv doctor --format json
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.commands.doctor import doctor

    checks = doctor(group_of(Execution, given).nsys)
    if form == "json":
        say_json({"checks": [c._asdict() for c in checks]})
    else:
        click.echo(_text(checks))
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

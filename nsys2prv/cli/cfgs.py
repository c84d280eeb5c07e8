"""`nsys2prv cfgs`."""

from __future__ import annotations

from typing import Literal

import click

from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import format_option, option


@click.command("cfgs")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@option(
    "--path",
    "as_path",
    is_flag=True,
    help="Print the folder that holds them, and nothing else.",
    more="For such as `wxparaver trace.prv $(nsys2prv cfgs --path)/views/cuda_activities.cfg`",
)
@option(
    "--install",
    "place",
    type=click.Choice(["user", "paraver"]),
    is_flag=False,
    flag_value="user",
    help="Add them to Paraver's Hints menu: for this user (default), or for all users of the Paraver in PARAVER_HOME.",
    more="`--install` or `--install user` writes to `~/.paraver`. Close Paraver before: it writes its list of "
    "workspaces when it ends. Installing again replaces what an earlier version put there, and nothing else",
)
@format_option("json", help="Form of the list.", more="`json` has `cfgs`, a list of objects with `path` and `title`")
def command(words: tuple[str, ...], as_path: bool, place: Literal["user", "paraver"] | None, form: str) -> None:
    """List the Paraver configurations that come with nsys2prv, by path and title.

    With WORDs, only cfgs with all of them in path or title. After --install, Paraver offers them as soon as a
    trace of nsys2prv is opened; close Paraver before, since it writes its workspaces when it ends.

    \b
    Examples:
      nsys2prv cfgs
      nsys2prv cfgs overlap
      nsys2prv cfgs --install
      wxparaver trace.prv $(nsys2prv cfgs --path)/views/cuda_activities.cfg
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.commands.cfgs import cfgs, install_cfgs
    from nsys2prv.paraver.cfg import CFGS, FOLDER

    if (as_path or place is not None) and (words or form == "json"):
        given = "--path" if as_path else "--install"
        raise click.UsageError(f"{given} cannot be combined with WORDs or --json: it applies to all configurations")
    if as_path and place is not None:
        raise click.UsageError("--path and --install cannot be combined: --install prints the folder it writes to")
    if as_path:
        click.echo(FOLDER)
        return
    if place is not None:
        click.echo(f"Installed {len(CFGS)} configurations in {install_cfgs(place)}.")
        return
    chosen = cfgs(*words)
    if form == "json":
        say_json({"cfgs": [{"path": one.path, "title": one.title} for one in chosen]})
        return
    width = max(len(one.path) for one in chosen)
    for one in chosen:
        click.echo(f"{one.path:{width}}  {one.title}")

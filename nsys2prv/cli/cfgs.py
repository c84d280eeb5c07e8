"""`nsys2prv cfgs`."""

from __future__ import annotations

from pathlib import Path

import click

from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import format_option, option
from nsys2prv.errors import UsageError
from nsys2prv.paraver.cfg import CFGS, FOLDER
from nsys2prv.paraver.cfg.install import install, of_paraver, of_user


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
def command(words: tuple[str, ...], as_path: bool, place: str | None, form: str) -> None:
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
    if as_path:
        click.echo(FOLDER)
        return
    if place:
        click.echo(f"Installed {len(CFGS)} configurations in {_install(place)}.")
        return
    lines = {cfg.path: cfg.title for cfg in CFGS}
    chosen = {p: t for p, t in lines.items() if all(w.lower() in f"{p} {t}".lower() for w in words)}
    if not chosen:
        raise UsageError(f"no configuration has {' and '.join(words)}; `nsys2prv cfgs` lists all")
    if form == "json":
        say_json({"cfgs": [{"path": path, "title": title} for path, title in chosen.items()]})
        return
    width = max(map(len, chosen))
    for path, title in chosen.items():
        click.echo(f"{path:{width}}  {title}")


def _install(place: str) -> Path:
    """Copy the cfgs, add their workspaces, and return their folder."""
    where = of_user() if place == "user" else of_paraver()
    if where is None:
        raise UsageError("PARAVER_HOME is not set; set it to the folder of the Paraver installation")
    install(CFGS, FOLDER, where)
    return where.folder

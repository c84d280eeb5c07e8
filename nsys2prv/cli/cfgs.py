"""`nsys2prv cfgs`."""

from __future__ import annotations

import click

from nsys2prv.paraver.cfg import CFGS, FOLDER


@click.command("cfgs")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--path", "as_path", is_flag=True, help="Print the folder that holds them, and nothing else.")
def command(words: tuple[str, ...], as_path: bool) -> None:
    """List the Paraver configurations that come with nsys2prv: path and what it shows.

    With WORDs, only those that have all of them in path or title.

    \b
    Examples:
      nsys2prv cfgs
      nsys2prv cfgs overlap
      wxparaver trace.prv $(nsys2prv cfgs --path)/views/cuda_activities.cfg
    """
    if as_path:
        click.echo(FOLDER)
        return
    lines = {cfg.path: cfg.title for cfg in CFGS}
    chosen = {p: t for p, t in lines.items() if all(w.lower() in f"{p} {t}".lower() for w in words)}
    width = max(map(len, chosen), default=0)
    for path, title in chosen.items():
        click.echo(f"{path:{width}}  {title}")

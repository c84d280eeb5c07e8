"""The Paraver configurations that come with nsys2prv: a list, and their installation."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from nsys2prv.errors import UsageError
from nsys2prv.paraver.cfg import CFGS, FOLDER
from nsys2prv.paraver.cfg.install import install, of_paraver, of_user


class Configuration(NamedTuple):
    """A Paraver configuration: its path below the folder of all, its title, and its file."""

    path: str
    title: str
    file: Path


def cfgs(*words: str) -> list[Configuration]:
    """List the configurations that have all of some words in path or title. Raises UsageError if none has."""
    every = [Configuration(cfg.path, cfg.title, FOLDER / cfg.path) for cfg in CFGS]
    chosen = [one for one in every if all(w.lower() in f"{one.path} {one.title}".lower() for w in words)]
    if not chosen:
        raise UsageError(f"no configuration has {' and '.join(words)}; `nsys2prv cfgs` lists all")
    return chosen


def install_cfgs(place: Literal["user", "paraver"] = "user") -> Path:
    """Add the configurations to Paraver's Hints menu, and return their folder there.

    `place`: for this user, or for all users of the Paraver in PARAVER_HOME. Raises Nsys2prvError.
    """
    where = of_user() if place == "user" else of_paraver()
    if where is None:
        raise UsageError("PARAVER_HOME is not set; set it to the folder of the Paraver installation")
    install(CFGS, FOLDER, where)
    return where.folder

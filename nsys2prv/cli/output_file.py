"""Output files of options such as --html, checked before the work begins and written at its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click

from nsys2prv.cli.options import Command, option
from nsys2prv.errors import OutputError, UsageError
from nsys2prv.model.whole_file import write_whole
from nsys2prv.report.nsys import ENDINGS, RAW

# Key of click's context under which the value of --force is kept.
FORCE_KEY = "nsys2prv --force"
# Endings of reports: an option before a pattern of the shell would take the first report for its file.
REPORT_ENDINGS = (ENDINGS["sqlite"], *RAW)


def force_option() -> Callable[[Command], Command]:
    """Return a decorator that adds `--force`, which lets options of files write over them."""
    text = "Write over an existing file."
    return option("--force", is_flag=True, is_eager=True, expose_value=False, callback=_forced, help=text)


def _forced(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    context.meta[FORCE_KEY] = given


def file_option(flag: str, text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds an option of a file to write, checked before the work begins. `text`: its help."""
    return option(flag, type=click.Path(path_type=Path), callback=_writable, metavar="FILE", help=text)


def _writable(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Check the file of an option, as its callback. Raises Nsys2prvError if it cannot be written, or is there."""
    try:
        if path is not None:
            _check(path)
            if path.exists() and not context.meta.get(FORCE_KEY):
                raise UsageError(f"{path}: the file exists already; use --force to write over it")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror}); choose another file") from None
    return path


def _check(path: Path) -> None:
    if path.is_dir():
        raise OutputError(f"{path}: this is a folder; name a file in it")
    if not path.parent.is_dir():
        raise OutputError(f"{path.parent}: no such folder; create it or choose another file")
    if path.exists() and path.name.endswith(REPORT_ENDINGS):
        raise OutputError(f"{path}: this is a report; name another file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OutputError(f"{path}: cannot be written (no permission); choose another file")


def write_text(path: Path, text: str, form: str) -> None:
    """Write a file, whole or not at all, and say so: on stderr if the command's `form` is for other programs.

    Raises OutputError.
    """
    write_whole(path, text)
    click.echo(f"Wrote {path}", err=form != "text")

"""Output files of options such as --html, checked before the work begins and written at its end."""

from __future__ import annotations

import os
from pathlib import Path

import click

from nsys2prv.errors import OutputError
from nsys2prv.pipeline.workers.partial_files import write_whole
from nsys2prv.report.nsys import ENDINGS, RAW

# Endings of reports: an option before a pattern of the shell would take the first report for its file.
REPORT_ENDINGS = (ENDINGS["sqlite"], *RAW)


def writable(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Check the file of an option, as its callback. Raises OutputError if it cannot be written, or is a report."""
    try:
        if path is not None:
            _check(path)
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


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all. Raises OutputError."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror}); choose another file") from None

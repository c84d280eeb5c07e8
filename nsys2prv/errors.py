"""The errors that the command line prints as one line: file, cause, next step."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Printed after Ctrl-C, SIGTERM or SIGHUP.
INTERRUPTED = "interrupted; nothing was written"


class Nsys2prvError(Exception):
    """A failure that the user can act on. `str(error)` is one line: file, cause, next step."""


class ReportError(Nsys2prvError):
    """A report that cannot be read. Names the file, the cause and the next step."""

    def __init__(self, path: Path | str, cause: str, advice: str) -> None:
        super().__init__(f"{path}: {cause}; {advice}")
        self.path, self.cause, self.advice = Path(path), cause, advice

    def __reduce__(self) -> tuple[type[ReportError], tuple[str, str, str]]:
        """Rebuild from the three parts, so that the error crosses process borders whole."""
        return type(self), (str(self.path), self.cause, self.advice)


class OutputError(Nsys2prvError):
    """An output that cannot be written."""


class LostWorkerError(Nsys2prvError):
    """A worker process that was killed. `items`: what the workers of this machine were working on, if known."""

    def __init__(self, message: str, items: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.items = tuple(items)


class UsageError(Nsys2prvError):
    """Options that contradict each other or the reports (exit code 2)."""


def not_written(folder: Path, error: OSError) -> OutputError:
    """Return the error that an intermediate file cannot be written to a folder."""
    return OutputError(f"{folder}: cannot write intermediate files ({error}); free space there")


def output_not_written(place: Path, error: OSError) -> OutputError:
    """Return the error that an output, or the folder it is in, cannot be written."""
    return OutputError(f"{place}: cannot be written ({error.strerror or error}); free space there")

"""The errors that the command line prints as one line: file, cause, next step; and how its lines name things."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

# Printed after Ctrl-C, SIGTERM or SIGHUP.
INTERRUPTED = "interrupted; nothing was written"
# Names in a list from which the user may choose one.
NAMES_SHOWN = 12
# Ranks that a line names: a run may have thousands.
RANKS_SHOWN = 8
# Characters of a name in a list, and of a sentence that a report says of itself.
NAME_WIDTH, SENTENCE_WIDTH = 100, 500


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


def short(text: str, most: int = 60) -> str:
    """Cut a text to a number of characters, for a line that quotes it."""
    return text if len(text) <= most else text[: most - 3] + "..."


def few(names: Sequence[str], most: int = 3) -> str:
    """Join the first names, each cut to NAME_WIDTH, and say how many more there are, for one line."""
    listed = ", ".join(short(name, NAME_WIDTH) for name in names[:most])
    return listed + (f" and {len(names) - most} more" if len(names) > most else "")


def few_ranks(ranks: Iterable[int]) -> str:
    """Name ranks for one line, a row of them by its ends: `rank 3`, `ranks 0 and 2`, `ranks 0 to 5`."""
    own = sorted(set(ranks))
    if len(own) == 1:
        return f"rank {own[0]}"
    if len(own) > 2 and own[-1] - own[0] == len(own) - 1:
        return f"ranks {own[0]} to {own[-1]}"
    shown = own[: RANKS_SHOWN if len(own) > RANKS_SHOWN else -1]
    rest = f"{len(own) - RANKS_SHOWN} more" if len(own) > RANKS_SHOWN else own[-1]
    return f"ranks {', '.join(map(str, shown))} and {rest}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'NAME'?` with the most similar of the known names; empty if none is similar."""
    # Loaded for messages alone.
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {short(near[0], NAME_WIDTH)!r}?" if near else ""


def bytes_text(count: int, digits: int = 1) -> str:
    """Return a size as text, such as `1.5 GB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.{digits}f} {unit}"
    return f"{count} B"

"""The inputs of a command: the reports of the run that they name, its name, and files of Nsight Compute."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nsys2prv.analysis.findings.finding import RUN
from nsys2prv.errors import ReportError
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.report.discover import find_reports, is_folder_of_reports, listed, without_ending
from nsys2prv.run.run_options import RunOptions

if TYPE_CHECKING:
    from nsys2prv.report.ncu.profile import Profile


# Longest text of several inputs in a command.
LONGEST_INPUTS = 80


class FoundRun(NamedTuple):
    """Reports of a run: their paths, the options that make them one run, and the errors of those that are left out."""

    paths: list[Path]
    options: RunOptions
    failed: list[ReportError]


def find_run(inputs: Iterable[Path | str] | Path | str, options: RunOptions, execution: Execution) -> FoundRun:
    """Find the reports of a run, and decide if they are one run where the options do not. Raises Nsys2prvError.

    They are if no folder is named.
    """
    named = listed(inputs)
    failed: list[ReportError] = []
    paths = find_reports(named, execution.nsys, failed if execution.keep_going else None)
    if execution.dask:
        # Its workers have a current folder of their own.
        paths = [path.absolute() for path in paths]
    if options.one_run is None:
        options = replace(options, one_run=not any(map(is_folder_of_reports, named)))
    return FoundRun(paths, options, failed)


# Words for what a report is of: they tell no run from another.
OF_ANY_RUN = frozenset(
    ("gpu", "host", "local_rank", "node", "nsys", "proc", "process", "profile", "rank", "report", "task")
)


def run_name(inputs: Sequence[Path]) -> str:
    """Name a run after its folder or report; of several after what their names begin with, or the folder of the first.

    What they begin with is never cut inside a number: `gpt10` and `gpt11` are `gpt`. A word such as `rank` is no name.
    """
    names = [without_ending(path).resolve().name for path in inputs or [Path()]]
    pairs = zip(min(names), max(names), strict=False)
    same = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if any(name[len(same) : len(same) + 1].isdigit() for name in names):
        same = same.rstrip("0123456789")
    if len(names) > 1:
        same = same.rstrip("._-")
        same = inputs[0].absolute().parent.resolve().name if same.lower() in {"", *OF_ANY_RUN} else same
    return same or "run"


def inputs_in_commands(inputs: Sequence[Path]) -> str:
    """Return the inputs of a run for commands that are pasted into a shell.

    One is written whole, however long it is. Several with a long text are the pattern that matches them alone, or RUN
    if there is none; so are names that no line can show.
    """
    text = shlex.join(map(str, inputs))
    if not text.isprintable():
        return RUN
    if len(inputs) == 1 or len(text) <= LONGEST_INPUTS:
        return text
    folder, ending = inputs[0].parent, inputs[0].suffix
    if not ending or {*folder.glob(f"*{ending}")} != {*inputs}:
        return RUN
    return f"{'' if folder == Path() else shlex.quote(str(folder)) + '/'}*{shlex.quote(ending)}"


def read_profiles(options: RunOptions) -> tuple[Profile, ...]:
    """Read the files of `options.ncu`. Raises ReportError."""
    if not options.ncu:
        return ()
    # Loaded when needed: most runs have no such file.
    from nsys2prv.report.ncu.profile import read_profile

    return tuple(map(read_profile, options.ncu))

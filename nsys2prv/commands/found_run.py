"""The reports of a run, from the files and folders that the user names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from nsys2prv.errors import ReportError
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.report.discover import find_reports, is_folder_of_reports, listed
from nsys2prv.run.options import RunOptions


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

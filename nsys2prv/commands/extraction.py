"""The extraction of a run: one part or more of each report, read by workers, and the reports that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nsys2prv.errors import LostWorkerError, Nsys2prvError, ReportError
from nsys2prv.pipeline.extract.extract import extract
from nsys2prv.pipeline.extract.parts import summary_of_parts
from nsys2prv.pipeline.extract.report_part import ReportPart
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.workers.input_size import input_size
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.memory import within_memory
from nsys2prv.pipeline.workers.progress import Progress
from nsys2prv.pipeline.workers.worker_map import default_jobs, worker_map
from nsys2prv.run.report_summary import Summary


class Extracted(NamedTuple):
    """Summaries of the reports that could be read, their paths, and the errors of the others."""

    summaries: list[Summary]
    paths: list[Path]
    failed: list[ReportError]


def extract_reports(reports: Sequence[Sequence[ReportPart]], workers: Workers, keep_going: bool) -> Extracted:
    """Extract reports, given the parts of each. A report that cannot be read stops all, with `keep_going` is left out.

    Raises ReportError, LostWorkerError, OutputError, and Nsys2prvError if none is left.
    """
    # The largest first: at the end it would keep a single worker busy.
    every = sorted((part for own in reports for part in own), key=lambda p: input_size([p.path]), reverse=True)
    attempts = workers.progress.track("reading reports", _try_all(workers, every), len(every))
    done: dict[Path, list[Summary]] = {}
    errors: dict[Path, ReportError] = {}
    for part, result in zip(every, attempts, strict=True):
        if isinstance(result, Summary):
            done.setdefault(part.path, []).append(result)
        elif keep_going:
            errors.setdefault(part.path, result)
        elif len(reports) > 1:
            raise among_others(result)
        else:
            raise result
    paths = [own[0].path for own in reports]
    failed = [errors[path] for path in paths if path in errors]
    read = [path for path in paths if path not in errors]
    if not read:
        raise none_left(failed)
    return Extracted([summary_of_parts(done[path]) for path in read], read, failed)


def among_others(error: ReportError) -> ReportError:
    """Return the error on one of several reports, which can be left out."""
    return ReportError(error.path, error.cause, f"{error.advice}; or leave it out with --keep-going")


def none_left(failed: Sequence[ReportError]) -> Nsys2prvError:
    """Return the error on a run none of whose reports can be read."""
    reasons = "; ".join(map(str, failed))
    return Nsys2prvError(f"none of the reports can be read; give others, or mend these: {reasons}")


def workers_of_reports(paths: Sequence[Path], execution: Execution) -> int:
    """Return how many workers read reports if each reads a whole report. Raises UsageError."""
    limits = execution.limits
    most = min(execution.jobs or default_jobs(input_size(paths), len(paths), limits), len(paths))
    return within_memory(most, execution.memory, limits)


@contextmanager
def reading_workers(count: int, folder: Path, execution: Execution) -> Iterator[Workers]:
    """Start so many workers, or those of Dask, which end with the context. `folder`: see Workers."""
    with worker_map(execution.jobs if execution.dask else count, execution.dask) as mapped:
        yield Workers(mapped, count, folder, execution.limits, Progress(execution.quiet))


def try_extract(part: ReportPart) -> Summary | ReportError:
    """Extract, or return the error."""
    try:
        return extract(part)
    except ReportError as error:
        return error


def _try_all(workers: Workers, parts: Sequence[ReportPart]) -> Iterator[Summary | ReportError]:
    """Try all parts. Raises LostWorkerError, which names the reports under way."""
    try:
        yield from workers.map(try_extract, parts)
    except LostWorkerError as lost:
        names = " or ".join(dict.fromkeys(str(part.path) for part in lost.items))
        if not names:
            raise
        cause = "a worker was killed over it, perhaps for lack of memory"
        raise LostWorkerError(f"{names}: {cause}; use fewer --jobs") from None

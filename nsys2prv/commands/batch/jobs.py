"""Translations of a batch: small runs side by side, large ones with all workers each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nsys2prv.commands.batch.manifest import Input
from nsys2prv.commands.batch.runs import RunReports
from nsys2prv.commands.record import database_name, record_analysis, spelled_options
from nsys2prv.commands.translate import translate
from nsys2prv.commands.translation import Translation
from nsys2prv.errors import LostWorkerError, Nsys2prvError
from nsys2prv.families.selection import Selection
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.workers.input_size import input_size
from nsys2prv.pipeline.workers.maps import Map
from nsys2prv.pipeline.workers.memory import within_memory
from nsys2prv.pipeline.workers.pool import pool
from nsys2prv.pipeline.workers.worker_map import default_jobs, worker_map
from nsys2prv.pipeline.write.trace_output import TraceOutput
from nsys2prv.report.nsys import find_nsys
from nsys2prv.run.run_options import RunOptions

# The error of a run whose process was killed.
RUN_KILLED = "its process was killed, perhaps for lack of memory; translate it alone for the full message"


class Settings(NamedTuple):
    """The parameters of `translate` that all runs of a batch share."""

    selection: Selection = Selection()
    options: RunOptions = RunOptions()
    execution: Execution = Execution()
    writing: TraceOutput = TraceOutput()


class RunJob(NamedTuple):
    """A translation to do.

    `former`: sizes of the files of the run's trace of an earlier batch; `db`: the database that records the run.
    """

    run: RunReports
    why: str
    inputs: tuple[Input, ...]
    former: Mapping[str, int]
    stem: Path
    settings: Settings
    db: str | None = None


# The figures of a translation for the manifest, or the error of one that failed.
Translated = Mapping[str, Any] | str


def results(jobs: Sequence[RunJob], execution: Execution) -> Generator[tuple[RunJob, Translated]]:
    """Translate runs and yield each with its result: small runs first, a worker each; then large ones, one by one.

    This process translates none itself on this machine: if it were killed over a run, the other runs would end, too.
    """
    limits = execution.limits
    with _scheduler(execution) as dask:
        sizes = {job.run.name: input_size(job.run.reports) for job in jobs}
        small = [job for job in jobs if sizes[job.run.name] < limits.process_bytes]
        large = [job for job in jobs if sizes[job.run.name] >= limits.process_bytes]
        total = sum(sizes[job.run.name] for job in small)
        wanted = min(execution.jobs or default_jobs(total, len(small), limits), len(small))
        if dask:
            # Dask gives up the very run that it tells of, after some tries on several workers.
            yield from _apart(small, lambda: worker_map(wanted, dask), 1, 1)
            yield from ((job, _translated(job, execution.jobs, dask)) for job in large)
            return
        count = within_memory(wanted, execution.memory, limits)
        yield from _apart(small, lambda: pool(count), count, 1)
        yield from _apart(large, lambda: pool(1), 1, execution.jobs)


@contextmanager
def _scheduler(execution: Execution) -> Iterator[str | None]:
    """Start one cluster for all runs, if Dask is asked for, and yield its address."""
    if execution.dask is None:
        yield None
        return
    # Loaded only on request: it is an extra.
    from nsys2prv.pipeline.workers.cluster import scheduler

    with scheduler(execution.dask, execution.jobs) as address:
        yield address


def _apart(
    jobs: Sequence[RunJob], processes: Callable[[], AbstractContextManager[Map[Any, Any]]], count: int, each: int | None
) -> Generator[tuple[RunJob, Translated]]:
    """Translate runs in processes, each with `each` processes. One may be killed over a run.

    The run is then among the first `count` of those without a result.
    """
    waiting = deque(jobs)
    while waiting:
        try:
            with processes() as mapped:
                for result in mapped(partial(_translated, jobs=each), tuple(waiting)):
                    yield waiting.popleft(), result
        except LostWorkerError:
            under_way = [waiting.popleft() for _ in range(min(count, len(waiting)))]
            if len(under_way) == 1:
                yield under_way[0], RUN_KILLED
            else:
                # One at a time shows which run it was.
                yield from _apart(under_way, lambda: pool(1), 1, each)


def _translated(job: RunJob, jobs: int | None = 1, dask: str | None = None) -> Translated:
    """Translate a run, and return its figures, or the error."""
    settings = job.settings._replace(execution=replace(job.settings.execution, jobs=jobs, dask=dask, quiet=True))
    # A run of a batch is a folder's, though its reports are named here.
    settings = settings._replace(options=replace(settings.options, one_run=bool(settings.options.one_run)))
    if job.db is not None:
        settings = settings._replace(writing=replace(settings.writing, summary=True))
    try:
        done = translate(job.run.reports, job.stem, force=True, **settings._asdict())
        recorded = _recorded(job, done)
    except Nsys2prvError as error:
        return str(error)
    except Exception as error:
        # An error of our own in one run does not stop the others.
        return f"{type(error).__name__}: {error}; translate it alone for the full message"
    return {
        "reports": done.reports,
        "tasks": done.tasks,
        "nodes": done.nodes,
        "duration_ns": done.duration_ns,
        "lines": done.lines,
        "seconds": round(sum(done.seconds.values()), 2),
        "left_out": list(done.failed),
        "warnings": list(done.warnings),
        "nsys": nsys_program(settings.execution.nsys),
        **recorded,
    }


def _recorded(job: RunJob, done: Translation) -> dict[str, Any]:
    """Record a run in the database, if there is one, and return its place there for the manifest."""
    if job.db is None or done.analysis is None:
        return {}
    options = spelled_options(job.settings.selection, job.settings.options, done.analysis.question)
    number = record_analysis(done.analysis, job.db, job.run.name, done.prv, options).number
    return {"recorded": {"db": database_name(job.db), "run": number}}


def nsys_program(given: Path | None) -> str | None:
    """Return the program that exports reports, with links resolved: each version has a folder of its own."""
    found = find_nsys(given)
    return str(found.resolve()) if found is not None and found.is_file() else None

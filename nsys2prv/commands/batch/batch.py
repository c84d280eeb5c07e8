"""Many runs, each into a trace of its own: what is new, changed or failed, and nothing else."""

from __future__ import annotations

import fcntl
import json
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nsys2prv.commands.batch.manifest import Input, Manifest, Record, as_json, inputs_of
from nsys2prv.commands.batch.runs import Run, find_runs
from nsys2prv.commands.translate import translate
from nsys2prv.errors import LostWorkerError, Nsys2prvError, OutputError
from nsys2prv.model.version import VERSION
from nsys2prv.pipeline.workers.maps import Map
from nsys2prv.pipeline.workers.partial_files import sweep
from nsys2prv.pipeline.workers.pool import pool
from nsys2prv.pipeline.workers.progress import Progress
from nsys2prv.pipeline.workers.resources import input_size, within_memory
from nsys2prv.pipeline.workers.workers import SMALL_INPUT, default_jobs, workers
from nsys2prv.pipeline.write.files import Target
from nsys2prv.report.nsys import RAW, export_of, find_nsys

Did = Literal["kept", "done", "failed", "to do"]

# What is known of a run over which a process was killed.
KILLED = "its process was killed, perhaps for lack of memory; translate it alone for the whole story"
# Arguments of a translation on which its trace does not depend.
ELSEWHERE = ("nsys", "max_size", "memory", "spill_dir")


class Attempt(NamedTuple):
    """A run of a batch: what was done with it, why, and its record in the manifest."""

    name: str
    did: Did
    why: str
    record: Record


class BatchResult(NamedTuple):
    """What a batch did, runs in order of name. `strangers`: reports that the pattern of names does not match.

    `gone`: runs of the manifest whose reports are no longer there; their traces stay.
    """

    manifest: Path
    runs: tuple[Attempt, ...]
    strangers: tuple[Path, ...]
    gone: tuple[str, ...]


def batch(
    root: Path | str,
    output: Path | str,
    *,
    group: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    jobs: int | None = None,
    dask: str | None = None,
    quiet: bool = True,
    **how: Any,
) -> BatchResult:
    """Translate every run under `root` into a trace in `output`, but those that an earlier batch has done already.

    `group`: a pattern on names of reports instead of a run a folder (see `find_runs`); `force`: translate all of them
    again; `how`: further arguments of `translate`. A run that fails is recorded so and does not stop the others.
    Raises Nsys2prvError.
    """
    root, folder = Path(root), Path(output)
    within_memory(1, how.get("memory"))
    if dask:  # workers have a current folder of their own
        root, folder = root.absolute(), folder.absolute()
    runs, strangers = find_runs(root, group)
    if not dry_run:
        _make(folder)
    manifest = Manifest(folder)
    work = _Batch(root, folder, manifest, how, force, jobs, dask, Progress(quiet))
    if dry_run:
        return BatchResult(manifest.path, tuple(map(work.planned, runs)), tuple(strangers), work.gone(runs))
    with _only_one(folder):
        manifest.read()
        work.clean(runs)
        try:
            attempts = work.translate(runs)
        finally:
            work.clean(runs)
    return BatchResult(manifest.path, attempts, tuple(strangers), work.gone(runs))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ({error.strerror}); choose another output folder") from None


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two batches into one folder would undo each other's work. Raises OutputError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise OutputError(f"{folder}: another batch is writing there; wait for it, or choose another folder") from None
    except OSError:  # a file system without locks on folders
        pass
    try:
        yield
    finally:
        os.close(descriptor)


class _Job(NamedTuple):
    """A translation to do."""

    run: Run
    why: str
    inputs: tuple[Input, ...]
    former: Mapping[str, int]
    stem: Path
    how: Mapping[str, Any]


@dataclass
class _Batch:
    """A batch under way."""

    root: Path
    folder: Path
    manifest: Manifest
    how: Mapping[str, Any]
    force: bool
    jobs: int | None
    dask: str | None
    progress: Progress
    options: Any = field(init=False)
    version: str = field(init=False, default=VERSION)

    def __post_init__(self) -> None:
        self.options = as_json({k: v for k, v in sorted(self.how.items()) if k not in ELSEWHERE})

    def planned(self, run: Run) -> Attempt:
        """What would be done with a run, as far as can be told without reading it."""
        inputs = inputs_of(run.reports, self.root)
        why = self._why(run, inputs)
        if why and (error := self._refused(run)) is not None:
            return Attempt(run.name, "failed", why, self._record(inputs, outcome="failed", error=error))
        return Attempt(run.name, "to do" if why else "kept", why or "up to date", self._record(inputs))

    def translate(self, runs: Sequence[Run]) -> tuple[Attempt, ...]:
        """Translate the runs that need it."""
        attempts: dict[str, Attempt] = {}
        jobs: list[_Job] = []
        self._forget_lost(runs)
        for run in runs:
            inputs = inputs_of(run.reports, self.root)
            why = self._why(run, inputs)
            known = self.manifest.records.get(run.name)
            if why is None and known is not None:
                attempts[run.name] = Attempt(run.name, "kept", "up to date", known)
                continue
            _make(self._stem(run).parent)
            job = _Job(run, why or "", inputs, known.outputs if known else {}, self._stem(run), self.how)
            if (error := self._refused(run)) is not None:
                attempts[run.name] = self._failed(job, error)
            else:
                jobs.append(job)
                self.manifest.records[run.name] = self._record(inputs, outputs=job.former)
        if not jobs:
            self.manifest.write()
            return tuple(attempts[run.name] for run in runs)
        # From here on what lies in the place of these traces is ours, also when the end does not come.
        self.manifest.write()
        with self._scheduler() as dask, closing(self._results(jobs, dask)) as results:
            for job, result in self.progress.track("translating runs", results, len(jobs)):
                done = self._failed(job, result) if isinstance(result, str) else self._done(job, result)
                attempts[job.run.name] = done
                self.manifest.write()
        return tuple(attempts[run.name] for run in runs)

    def gone(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """Runs that have a trace and no reports any more."""
        names = self.manifest.records.keys() - {run.name for run in runs}
        return tuple(sorted(name for name in names if self.manifest.records[name].outputs))

    def _forget_lost(self, runs: Sequence[Run]) -> None:
        """Drop the records of runs that have neither reports nor a trace any more."""
        for name in self.manifest.records.keys() - {run.name for run in runs}:
            if not self.manifest.records[name].outputs:
                del self.manifest.records[name]

    def clean(self, runs: Sequence[Run]) -> None:
        """Remove what killed batches left: beside traces, beside reports that they exported, where they spilled."""
        names = {*self.manifest.records, *(run.name for run in runs)}
        folders = {self.folder, *((self.folder / name).parent for name in names)}
        folders |= {report.parent for run in runs for report in run.reports}
        if self.how.get("spill_dir"):
            folders.add(Path(self.how["spill_dir"]))
        for folder in folders:
            if folder.is_dir():
                sweep(folder)

    def _why(self, run: Run, inputs: tuple[Input, ...]) -> str | None:
        """Why a run has to be translated; None if what lies there is its trace."""
        known = self.manifest.records.get(run.name)
        if known is None:
            return "new"
        if known.outcome != "done":
            return {"failed": "failed before", "begun": "interrupted"}[known.outcome]
        differs = {
            "other reports": known.inputs != inputs,
            "other options": json.dumps(known.options) != json.dumps(self.options),
            "other version": known.version != self.version,
            "trace missing": any(_size(self.folder / name) != size for name, size in known.outputs.items()),
            "forced": self.force,
        }
        why = next((why for why, so in differs.items() if so), None)
        return why or ("another nsys" if self._can_export_more(run, known) else None)

    def _can_export_more(self, run: Run, known: Record) -> bool:
        """Whether there is an nsys now that was not there, or not asked, when reports were left out without export."""
        if not known.figures.get("left_out"):
            return False
        nsys = _nsys(self.how.get("nsys"))
        another = nsys not in (None, known.figures.get("nsys"))
        return another and any(r.suffix in RAW and export_of(r) is None for r in run.reports)

    def _refused(self, run: Run) -> str | None:
        """Why a run's trace cannot take its place, such as one there that no batch made; None if it can."""
        stem, known = self._stem(run), self.manifest.records.get(run.name)
        owned = known is not None and (bool(known.outputs) or known.outcome == "begun")
        try:
            if stem.parent.is_dir():
                self._target(stem).check(force=self.force or owned)
        except Nsys2prvError as error:
            return str(error)
        return None

    def _stem(self, run: Run) -> Path:
        stem = self.folder / run.name
        # With an ending, so that one in the run's name is left alone.
        return stem.with_name(stem.name + ".prv")

    def _target(self, stem: Path) -> Target:
        return Target.of(stem, bool(self.how.get("compress")))

    def _record(self, inputs: tuple[Input, ...], **values: Any) -> Record:
        return Record(inputs, self.options, self.version, **values)

    def _done(self, job: _Job, figures: Mapping[str, Any]) -> Attempt:
        target = self._target(job.stem)
        files = (target.prv, target.pcf, target.row, target.alignment)
        outputs = {f.relative_to(self.folder).as_posix(): f.stat().st_size for f in files if f.exists()}
        for name in job.former.keys() - outputs.keys():
            (self.folder / name).unlink(missing_ok=True)
        record = self._record(self._with_exports(job), outcome="done", outputs=outputs, figures=figures)
        self.manifest.records[job.run.name] = record
        return Attempt(job.run.name, "done", job.why, record)

    def _with_exports(self, job: _Job) -> tuple[Input, ...]:
        """A run's inputs as the next batch finds them: with the exports that the translation made."""
        exports = {e for r in job.run.reports if r.suffix in RAW and (e := export_of(r)) is not None}
        reports = sorted({*job.run.reports, *exports})
        before = dict(zip(job.run.reports, job.inputs, strict=True))
        return tuple(before[r] if r not in exports else inputs_of([r], self.root)[0] for r in reports)

    def _failed(self, job: _Job, error: str) -> Attempt:
        record = self._record(job.inputs, outcome="failed", error=error, outputs=job.former)
        self.manifest.records[job.run.name] = record
        return Attempt(job.run.name, "failed", job.why, record)

    @contextmanager
    def _scheduler(self) -> Iterator[str | None]:
        """One cluster for all runs."""
        if self.dask is None:
            yield None
            return
        # Loaded only when it is asked for: it is an extra.
        from nsys2prv.pipeline.workers.cluster import scheduler

        with scheduler(self.dask, self.jobs) as address:
            yield address

    def _results(self, jobs: Sequence[_Job], dask: str | None) -> Generator[tuple[_Job, Mapping[str, Any] | str]]:
        """Small runs side by side, a worker each; then large ones, each with all workers.

        On this machine none is translated by this process: it could be killed over one, and the others with it.
        """
        sizes = {job.run.name: input_size(job.run.reports) for job in jobs}
        small = [job for job in jobs if sizes[job.run.name] < SMALL_INPUT]
        large = [job for job in jobs if sizes[job.run.name] >= SMALL_INPUT]
        total = sum(sizes[job.run.name] for job in small)
        wanted = min(self.jobs or default_jobs(total, len(small)), len(small))
        if dask:
            yield from _apart(small, lambda: workers(wanted, dask), len(small), 1)
            yield from ((job, _translated(job, self.jobs, dask)) for job in large)
            return
        count = within_memory(wanted, self.how.get("memory"))
        yield from _apart(small, lambda: pool(count), count, 1)
        yield from _apart(large, lambda: pool(1), 1, self.jobs)


def _nsys(given: Path | None) -> str | None:
    """The program that exports reports, as it is called without links: each version has a folder of its own."""
    found = find_nsys(given)
    return str(found.resolve()) if found is not None and found.is_file() else None


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


def _apart(
    jobs: Sequence[_Job], processes: Callable[[], AbstractContextManager[Map[Any, Any]]], count: int, each: int | None
) -> Generator[tuple[_Job, Mapping[str, Any] | str]]:
    """Translate runs in processes, `count` at a time, each with so many of its own. One may be killed over a run."""
    waiting = deque(jobs)
    while waiting:
        try:
            with processes() as mapped:
                for result in mapped(partial(_translated, jobs=each), tuple(waiting)):
                    yield waiting.popleft(), result
        except LostWorkerError:
            under_way = [waiting.popleft() for _ in range(min(count, len(waiting)))]
            if len(under_way) == 1:
                yield under_way[0], KILLED
            else:
                # Which of them it was is found out one by one.
                yield from _apart(under_way, lambda: pool(1), 1, each)


def _translated(job: _Job, jobs: int | None = 1, dask: str | None = None) -> Mapping[str, Any] | str:
    """What a translation told, or why it failed."""
    try:
        told = translate(job.run.reports, job.stem, jobs=jobs, dask=dask, force=True, quiet=True, **job.how)
    except Nsys2prvError as error:
        return str(error)
    except Exception as error:
        # A run that trips over an error of ours is one bad run as well.
        return f"{type(error).__name__}: {error}; translate it alone for the whole story"
    return {
        "reports": told.reports,
        "tasks": told.tasks,
        "nodes": told.nodes,
        "duration_ns": told.duration_ns,
        "lines": told.lines,
        "seconds": round(sum(told.seconds.values()), 2),
        "left_out": list(told.failed),
        "warnings": list(told.warnings),
        "nsys": _nsys(job.how.get("nsys")),
    }

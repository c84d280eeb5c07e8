"""Batch: many runs, a trace each. Only new, changed and failed runs are translated."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nsys2prv.commands.batch.beforehand import failure_of
from nsys2prv.commands.batch.jobs import RunJob, Settings, nsys_program, results
from nsys2prv.commands.batch.manifest import Input, Manifest, Record, as_json, inputs_of
from nsys2prv.commands.batch.runs import RunReports, find_runs
from nsys2prv.commands.record import database_name, prepare_database, recorded_numbers
from nsys2prv.errors import Nsys2prvError, OutputError, UsageError
from nsys2prv.model.version import VERSION
from nsys2prv.pipeline.workers.memory import within_memory
from nsys2prv.pipeline.workers.partial_files import sweep
from nsys2prv.pipeline.workers.progress import Progress
from nsys2prv.pipeline.write.files import Target
from nsys2prv.report.nsys import RAW, export_of

# In place of an output folder: one that has nothing in it.
NO_FOLDER = os.devnull
Did = Literal["kept", "done", "failed", "to do"]


class Attempt(NamedTuple):
    """A run of a batch: the action taken, the reason, and its record in the manifest."""

    name: str
    did: Did
    why: str
    record: Record


class BatchResult(NamedTuple):
    """The result of a batch, runs in order of name. `strangers`: reports that the pattern of names does not match.

    `manifest`: None of a dry run without an output folder; `gone`: runs of the manifest whose reports are no longer
    there; their traces stay.
    """

    manifest: Path | None
    runs: tuple[Attempt, ...]
    strangers: tuple[Path, ...]
    gone: tuple[str, ...]


def batch(
    root: Path | str,
    output: Path | str | None = None,
    *,
    group: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    settings: Settings = Settings(),
    db: str | Path | None = None,
) -> BatchResult:
    """Translate every run under `root` into a trace in `output`, except the runs that an earlier batch has done.

    `group`: a pattern on names of reports instead of a run a folder (see `find_runs`); `force`: translate all of them
    again; `dry_run`: translate none, and return what would be done, and fail as far as opening the reports tells; it
    needs no `output`, without which all runs are new; `settings`: parameters of `translate` for all runs;
    `db`: a database in which each run is recorded when its trace is written, and runs that are not there yet are
    translated again. A run that fails is in the manifest and does not stop the others. Raises Nsys2prvError.
    """
    if output is None and not dry_run:
        raise UsageError("no folder for the traces; name it with -o OUTDIR, or see what would be done with --dry-run")
    root, folder = Path(root), Path(NO_FOLDER if output is None else output)
    within_memory(1, settings.execution.memory, settings.execution.limits)
    if settings.execution.dask:  # workers have a current folder of their own
        root, folder = root.absolute(), folder.absolute()
    runs, strangers = find_runs(root, group)
    if not dry_run:
        _make(folder)
        if db is not None:
            prepare_database(db)
    manifest = Manifest(folder)
    work = _Batch(root, folder, manifest, settings, force, db)
    if dry_run:
        place = manifest.path if output is not None else None
        return BatchResult(place, tuple(map(work.planned, runs)), tuple(strangers), work.gone(runs))
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
    """Lock a folder: two batches into it would undo each other's work. Raises OutputError."""
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


@dataclass
class _Batch:
    """A batch in progress."""

    root: Path
    folder: Path
    manifest: Manifest
    settings: Settings
    force: bool
    db: str | Path | None = None
    # The name of the database in the manifest, and the runs that it has.
    database: str | None = field(init=False, default=None)
    numbers: frozenset[int] = field(init=False, default=frozenset())
    options: Any = field(init=False)
    version: str = field(init=False, default=VERSION)

    def __post_init__(self) -> None:
        # The parameters on which a trace depends.
        selection, options, execution, writing = self.settings
        if self.db is not None:
            self.database, self.numbers = database_name(self.db), recorded_numbers(self.db)
        written = {name: getattr(writing, name) for name in ("compress", "redact", "window", "public_types")}
        values = {"keep_going": execution.keep_going, **written}
        self.options = as_json({"selection": selection, "options": options, **values})

    def planned(self, run: RunReports) -> Attempt:
        """Return the action that a run needs, judged without reading all of its reports."""
        inputs = inputs_of(run.reports, self.root)
        why = self._why(run, inputs)
        if why is None:
            return self._kept(run)
        if (error := self._refused(run) or failure_of(run.reports, self.settings)) is not None:
            return Attempt(run.name, "failed", why, self._record(inputs, outcome="failed", error=error))
        return Attempt(run.name, "to do", why, self._record(inputs))

    def translate(self, runs: Sequence[RunReports]) -> tuple[Attempt, ...]:
        """Translate the runs that need it."""
        self._forget_lost(runs)
        attempts, jobs = self._begun(runs)
        # From here on the files in the place of these traces are ours, even if this batch is killed.
        self.manifest.write()
        if jobs:
            attempts |= self._ended(jobs)
        return tuple(attempts[run.name] for run in runs)

    def _begun(self, runs: Sequence[RunReports]) -> tuple[dict[str, Attempt], list[RunJob]]:
        """Return the attempts of runs that are up to date or cannot be written, and jobs for the others.

        The manifest has the others as begun.
        """
        attempts: dict[str, Attempt] = {}
        jobs: list[RunJob] = []
        for run in runs:
            inputs = inputs_of(run.reports, self.root)
            why = self._why(run, inputs)
            if why is None:
                attempts[run.name] = self._kept(run)
                continue
            _make(self._stem(run).parent)
            known = self.manifest.records.get(run.name)
            former = known.outputs if known else {}
            job = RunJob(run, why, inputs, former, self._stem(run), self.settings, self._address())
            if (error := self._refused(run)) is not None:
                attempts[run.name] = self._failed(job, error, job.former)
            else:
                jobs.append(job)
                self.manifest.records[run.name] = self._record(inputs, outputs=job.former)
        return attempts, jobs

    def _ended(self, jobs: Sequence[RunJob]) -> dict[str, Attempt]:
        """Return the attempts of jobs, by run. The manifest is written after each of them."""
        attempts = {}
        execution = self.settings.execution
        with closing(results(jobs, execution)) as translated:
            for job, result in Progress(execution.quiet).track("translating runs", translated, len(jobs)):
                if isinstance(result, str):
                    # What is there now is ours: the run may have failed after its trace was written.
                    done = self._failed(job, result, {**job.former, **self._written(job)})
                else:
                    done = self._done(job, result)
                attempts[job.run.name] = done
                self.manifest.write()
        return attempts

    def gone(self, runs: Sequence[RunReports]) -> tuple[str, ...]:
        """Return the names of runs that have a trace and no reports any more."""
        names = self.manifest.records.keys() - {run.name for run in runs}
        return tuple(sorted(name for name in names if self.manifest.records[name].outputs))

    def _forget_lost(self, runs: Sequence[RunReports]) -> None:
        """Drop the records of runs that have neither reports nor a trace any more."""
        for name in self.manifest.records.keys() - {run.name for run in runs}:
            if not self.manifest.records[name].outputs:
                del self.manifest.records[name]

    def clean(self, runs: Sequence[RunReports]) -> None:
        """Remove partial files of killed batches: beside traces, beside exported reports, in the spill folder."""
        names = {*self.manifest.records, *(run.name for run in runs)}
        folders = {self.folder, *((self.folder / name).parent for name in names)}
        folders |= {report.parent for run in runs for report in run.reports}
        if self.settings.execution.spill_dir:
            folders.add(self.settings.execution.spill_dir)
        for folder in folders:
            if folder.is_dir():
                sweep(folder)

    def _why(self, run: RunReports, inputs: tuple[Input, ...]) -> str | None:
        """Return why a run must be translated; None if its trace is up to date."""
        known = self.manifest.records.get(run.name)
        if known is None:
            return "new"
        if known.outcome != "done":
            return {"failed": "failed before", "begun": "interrupted"}[known.outcome]
        differs = {
            "other reports": known.inputs != inputs,
            "other options": json.dumps(known.options) != json.dumps(self.options),
            "other version": known.version != self.version,
            "not recorded": self._lacks(known),
            "trace missing": any(_size(self.folder / name) != size for name, size in known.outputs.items()),
            "forced": self.force,
        }
        why = next((why for why, so in differs.items() if so), None)
        return why or ("another nsys" if self._can_export_more(run, known) else None)

    def _address(self) -> str | None:
        """Return the database as workers in other folders find it."""
        if self.db is None or self.database is None:
            return None
        return str(self.db) if "://" in str(self.db) else self.database

    def _lacks(self, known: Record) -> bool:
        """Return True if the database does not have a run that an earlier batch translated."""
        place = known.figures.get("recorded", {})
        return self.database is not None and (place.get("db") != self.database or place["run"] not in self.numbers)

    def _can_export_more(self, run: RunReports, known: Record) -> bool:
        """Return True if a new nsys can export reports that an earlier batch left out."""
        if not known.figures.get("left_out"):
            return False
        nsys = nsys_program(self.settings.execution.nsys)
        another = nsys not in (None, known.figures.get("nsys"))
        return another and any(r.suffix in RAW and export_of(r) is None for r in run.reports)

    def _refused(self, run: RunReports) -> str | None:
        """Return why a run's trace cannot be written, such as a file there that no batch made; None if it can."""
        stem, known = self._stem(run), self.manifest.records.get(run.name)
        owned = known is not None and (bool(known.outputs) or known.outcome == "begun")
        try:
            if stem.parent.is_dir():
                self._target(stem).check(force=self.force or owned)
        except Nsys2prvError as error:
            return str(error)
        return None

    def _stem(self, run: RunReports) -> Path:
        stem = self.folder / run.name
        # With an ending, so that one in the run's name is left alone.
        return stem.with_name(stem.name + ".prv")

    def _target(self, stem: Path) -> Target:
        return Target.of(stem, self.settings.writing.compress)

    def _record(self, inputs: tuple[Input, ...], **values: Any) -> Record:
        return Record(inputs, self.options, self.version, **values)

    def _kept(self, run: RunReports) -> Attempt:
        return Attempt(run.name, "kept", "up to date", self.manifest.records[run.name])

    def _done(self, job: RunJob, figures: Mapping[str, Any]) -> Attempt:
        outputs = self._written(job)
        for name in job.former.keys() - outputs.keys():
            (self.folder / name).unlink(missing_ok=True)
        record = self._record(self._with_exports(job), outcome="done", outputs=outputs, figures=figures)
        self.manifest.records[job.run.name] = record
        return Attempt(job.run.name, "done", job.why, record)

    def _written(self, job: RunJob) -> dict[str, int]:
        """Return the sizes of the files of a run's trace that exist."""
        target = self._target(job.stem)
        files = (target.prv, target.pcf, target.row, target.alignment)
        return {f.relative_to(self.folder).as_posix(): f.stat().st_size for f in files if f.exists()}

    def _with_exports(self, job: RunJob) -> tuple[Input, ...]:
        """Return the inputs of a run, with the exports made by the translation, as the next batch will find them."""
        exports = {e for r in job.run.reports if r.suffix in RAW and (e := export_of(r)) is not None}
        reports = sorted({*job.run.reports, *exports})
        before = dict(zip(job.run.reports, job.inputs, strict=True))
        return tuple(before[r] if r not in exports else inputs_of([r], self.root)[0] for r in reports)

    def _failed(self, job: RunJob, error: str, outputs: Mapping[str, int]) -> Attempt:
        record = self._record(job.inputs, outcome="failed", error=error, outputs=outputs)
        self.manifest.records[job.run.name] = record
        return Attempt(job.run.name, "failed", job.why, record)


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None

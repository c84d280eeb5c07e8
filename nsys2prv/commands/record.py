"""Recording of runs in a database. SQLAlchemy is loaded when a run is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.question import Question
from nsys2prv.commands.analyze import analyze
from nsys2prv.commands.inputs import run_name
from nsys2prv.errors import UsageError
from nsys2prv.families.selection import Selection
from nsys2prv.model.option import spelled
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.run.run_options import RunOptions

if TYPE_CHECKING:
    from nsys2prv.database.recorded import Recorded


def record(
    inputs: Iterable[Path | str] | Path | str,
    db: str | Path,
    *,
    name: str | None = None,
    trace: Path | str | None = None,
    question: Question = Question(),
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
) -> Recorded:
    """Analyze a run and record its figures in a database: an SQLite file, or a URL such as `postgresql://host/runs`.

    `name`: what the run is called, by default as its folder or report; `trace`: where its trace lies; the other
    parameters are those of `analyze`. The same reports recorded again under the same name replace what was recorded.
    The run is in the database whole, or not at all. Raises Nsys2prvError.
    """
    given = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    called = checked_name(name or run_name([Path(item) for item in given]))
    prepare_database(db)
    found = analyze(given, question=question, selection=selection, options=options, execution=execution)
    return record_analysis(found, db, called, trace, spelled_options(selection, options, question))


def database_name(db: str | Path) -> str:
    """Return what a database is called: the absolute path of its file, or its URL without the password."""
    from nsys2prv.database.connection import SQLITE, address, display_name

    url = address(db)
    return str(Path(url.database or "").absolute()) if url.get_backend_name() == SQLITE else display_name(url)


def recorded_numbers(db: str | Path) -> frozenset[int]:
    """Return the numbers of the runs of a database, none if there is no database yet. Raises Nsys2prvError."""
    from nsys2prv.database import read

    return read.recorded_numbers(db)


def prepare_database(db: str | Path) -> None:
    """Make the tables of a database, or bring them up to date, before the work begins. Raises Nsys2prvError."""
    from nsys2prv.database.connection import address
    from nsys2prv.database.migrations import prepare

    prepare(address(db))


def record_analysis(
    analysis: Analysis, db: str | Path, name: str, trace: Path | str | None, options: Sequence[str]
) -> Recorded:
    """Record an analysis in a database that is prepared. `options`: as on a command line. Raises Nsys2prvError."""
    from nsys2prv.database.run_record import run_record, store

    return store(db, run_record(analysis, name, None if trace is None else Path(trace), options))


def spelled_options(*groups: object) -> list[str]:
    """Return the options that make groups of parameters, as on a command line."""
    return [text for group in groups for text in spelled(group)]


def checked_name(name: str) -> str:
    """Return the name of a run. Raises UsageError for one that stands for any run."""
    from nsys2prv.database.recorded import LAST

    if name == LAST:
        raise UsageError(f"--name {name}: this stands for the latest run; choose another name")
    return name

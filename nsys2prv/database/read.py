"""Reading runs from a database: all of them as a table, and one as a side of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from sqlalchemy import Connection, Select, Table, and_, func, select
from sqlalchemy.sql.elements import ColumnElement

from nsys2prv.analysis.compare.run_figures import EFFICIENCY, ITERATION_MEAN, LENGTH, WHOLE, RunFigures
from nsys2prv.analysis.compare.stated_finding import stated_finding
from nsys2prv.analysis.iterations.iteration_times import ITERATION
from nsys2prv.database.connection import SQLITE, address, display_name, transaction
from nsys2prv.database.migrations import check_version, version_of
from nsys2prv.database.recorded import LAST, Recorded
from nsys2prv.database.schema import FIGURES, FINDINGS, ITERATIONS, RUNS, TASKS
from nsys2prv.errors import UsageError
from nsys2prv.model.words import NAMES_SHOWN, did_you_mean, few, short

# A run a row. `began`: of the recording, `recorded`: into the database; `iteration_ns`: median over the steady
# iterations (null: none); efficiencies: null where no device did anything; `finding`: title of the worst one that
# takes time, else of the first one, and its cost an iteration (null: none).
HISTORY = {
    "run": pl.Int64(),
    "name": pl.String(),
    "program": pl.String(),
    "began": pl.Datetime("us", "UTC"),
    "recorded": pl.Datetime("us", "UTC"),
    "version": pl.String(),
    "ranks": pl.Int64(),
    "gpus": pl.Int64(),
    "window": pl.String(),
    "window_ns": pl.Int64(),
    "iterations": pl.Int64(),
    "iteration_ns": pl.Float64(),
    "iteration_mean_ns": pl.Float64(),
    "parallel": pl.Float64(),
    "load_balance": pl.Float64(),
    "communication": pl.Float64(),
    "orchestration": pl.Float64(),
    "whole_iterations": pl.Float64(),
    "finding": pl.String(),
    "finding_cost_ns": pl.Int64(),
    "trace": pl.String(),
}
EFFICIENCIES = ("parallel", "load_balance", "communication", "orchestration")
# Time of a run: of old reports only that of their recording into the database is known.
WHEN = func.coalesce(RUNS.c.began, RUNS.c.recorded)
# Digits of a number of a run at most: SQLite takes no larger numbers.
NUMBER_DIGITS = 18


def read_history(db: str | Path, program: str | None = None) -> pl.DataFrame:
    """Return HISTORY of the runs, the oldest first.

    `program`: only those with this text in their program's name, in capital or small letters. Raises UsageError if
    there are none.
    """
    url = address(db)
    # A defect of the recording may come first, and costs nothing. Of findings without any cost the first one is shown.
    other = FINDINGS.alias()
    first = select(other.c.position).where(other.c.run_id == RUNS.c.id).order_by(other.c.share == 0, other.c.position)
    worst = and_(FINDINGS.c.run_id == RUNS.c.id, FINDINGS.c.position == first.limit(1).scalar_subquery())
    # Figures of runs that have iterations: the mean length, and the efficiency with the time between iterations.
    mean, whole = FIGURES.alias(), FIGURES.alias()
    of_mean = and_(mean.c.run_id == RUNS.c.id, mean.c.what == ITERATION_MEAN, mean.c.name == LENGTH)
    of_whole = and_(whole.c.run_id == RUNS.c.id, whole.c.what == EFFICIENCY, whole.c.name == WHOLE)
    others = {
        "run": RUNS.c.id,
        "iteration_mean_ns": mean.c.value,
        "whole_iterations": whole.c.value,
        "finding": FINDINGS.c.title,
        "finding_cost_ns": FINDINGS.c.cost_ns,
    }
    columns = [(others[name] if name in others else RUNS.c[name]).label(name) for name in HISTORY]
    joined = select(*columns).outerjoin_from(RUNS, FINDINGS, worst)
    joined = joined.outerjoin(mean, of_mean).outerjoin(whole, of_whole)
    query = joined.order_by(WHEN, RUNS.c.id)
    if program is not None:
        query = query.where(RUNS.c.program.icontains(program, autoescape=True))
    with transaction(url) as connection:
        check_version(connection, url)
        rows = connection.execute(query).all()
        if not rows and program is not None:
            known = connection.scalars(select(RUNS.c.program).distinct().order_by(RUNS.c.program)).all()
            near = did_you_mean(program, known)
            raise UsageError(
                f"{display_name(url)}: no run of a program {short(program)!r}{near}; "
                f"the programs are: {few(known, NAMES_SHOWN) or 'none'}"
            )
    runs = pl.DataFrame([tuple(row) for row in rows], schema=HISTORY, orient="row")
    # The tables hold 0 for them, which would read as a run whose devices idle.
    busy = pl.col("orchestration") > 0
    return runs.with_columns(pl.when(busy).then(pl.col(name)).alias(name) for name in EFFICIENCIES)


def check_readable(db: str | Path) -> None:
    """Check that there is a database with the present tables. Raises Nsys2prvError."""
    url = address(db)
    with transaction(url) as connection:
        check_version(connection, url)


def recorded_numbers(db: str | Path) -> frozenset[int]:
    """Return the numbers of the runs of a database, none if there is no database yet. Raises Nsys2prvError."""
    url = address(db)
    if url.get_backend_name() == SQLITE and url.database and not Path(url.database).exists():
        return frozenset()
    with transaction(url) as connection:
        if version_of(connection, url) is None:
            return frozenset()
        check_version(connection, url)
        return frozenset(connection.scalars(select(RUNS.c.id)))


def read_run(chosen: Recorded, beside: RunFigures | None = None, apart: str = "") -> RunFigures:
    """Return a run of a database as a side of a comparison.

    `beside`: the other side, of whose program, ranks and GPUs LAST is, None for any; `apart`: hash of the reports that
    are not to be compared with themselves. Raises UsageError if there is no such run.
    """
    url = address(chosen.db)
    with transaction(url) as connection:
        check_version(connection, url)
        number = _number(connection, chosen, beside, apart)
        if number is None:
            raise _no_run(connection, display_name(url), chosen, beside)
        return _side(connection, number)


def _number(connection: Connection, chosen: Recorded, beside: RunFigures | None, apart: str) -> int | None:
    """Find the number of a run by its number, its name, its number as text, or LAST; None if there is no such run."""
    latest = select(RUNS.c.id).order_by(WHEN.desc(), RUNS.c.id.desc()).limit(1)
    if chosen.number is not None:
        return connection.scalar(latest.where(RUNS.c.id == chosen.number))
    name = chosen.name
    if name != LAST:
        named: ColumnElement[bool] = RUNS.c.name == name
        found = connection.scalar(latest.where(named))
        if found is None and name.isdecimal() and len(name) <= NUMBER_DIGITS:
            found = connection.scalar(latest.where(RUNS.c.id == int(name)))
        return found
    latest = latest.where(RUNS.c.reports_hash != apart)
    if beside is not None:
        alike = {"program": beside.program, "ranks": beside.ranks, "gpus": beside.gpus}
        latest = latest.where(*(RUNS.c[column] == value for column, value in alike.items()))
    return connection.scalar(latest)


def _no_run(connection: Connection, db: str, chosen: Recorded, beside: RunFigures | None) -> UsageError:
    name = chosen.name if chosen.number is None else str(chosen.number)
    names = connection.scalars(select(RUNS.c.name).distinct().order_by(RUNS.c.name)).all()
    if name == LAST:
        of = f" of {beside.program} on {beside.ranks} ranks and {beside.gpus} GPUs" if beside else ""
        return UsageError(f"{db}: no other run{of}; record one, or choose one of: {few(names, NAMES_SHOWN) or 'none'}")
    near = did_you_mean(name, names)
    return UsageError(f"{db}: no run {short(name)!r}{near}; the runs are: {few(names, NAMES_SHOWN) or 'none'}")


def _of(table: Table, number: int) -> Select[Any]:
    """Select the rows of a run from a table, in order."""
    return select(table).where(table.c.run_id == number).order_by(*table.primary_key)


def _side(connection: Connection, number: int) -> RunFigures:
    """Return a recorded run, by its number, as a side of a comparison."""
    run = connection.execute(select(RUNS).where(RUNS.c.id == number)).one()
    programs = connection.scalars(_of(TASKS, number).with_only_columns(TASKS.c.program)).all()
    figures = connection.execute(_of(FIGURES, number)).all()
    rows = connection.execute(
        _of(ITERATIONS, number).with_only_columns(*(ITERATIONS.c[name] for name in ITERATION))
    ).all()
    stated = [FINDINGS.c[name] for name in ("id", "severity", "title", "cost_ns", "ranks", "evidence")]
    found = connection.execute(_of(FINDINGS, number).with_only_columns(*stated)).all()
    return RunFigures(
        name=f"{run.name} (run {number})",
        programs=tuple(programs),
        ranks=run.ranks,
        gpus=run.gpus,
        nccl=run.nccl,
        window=run.window,
        kept=run.iterations,
        iteration_pattern=run.iteration_pattern,
        figures={(one.what, one.name): one.value for one in figures if one.value is not None},
        iterations=pl.DataFrame([tuple(row) for row in rows], schema=ITERATION, orient="row"),
        findings=tuple(
            stated_finding(one.id, one.severity, one.title, one.cost_ns, one.ranks, one.evidence) for one in found
        ),
    )

"""The tables of a database of runs. Their comments are in docs/database.md, and in a PostgreSQL database, too."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)

from nsys2prv.analysis.iterations.iteration_times import ITERATION

# Version of these tables. A change of them raises it, and migrations.STEPS gets a step that makes it in databases of
# the version before.
VERSION = 2


class Name(TypeDecorator[str]):
    """A text of a report. Zero bytes, which PostgreSQL does not store, are left out."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text as it is stored."""
        return value if value is None else value.replace("\0", "")


class Utc(TypeDecorator[datetime]):
    """A time in UTC, which SQLite stores without its zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the time as it is stored."""
        return value if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the stored time with its zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


METADATA = MetaData()


def _of_run() -> Column[int]:
    """Return the column that names a row's run. The rows go when the run goes."""
    return Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, comment="The run")


def _key(name: str, kind: Any, about: str) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False, comment=about)


def _filled(name: str, kind: Any, about: str) -> Column[Any]:
    return Column(name, kind, nullable=False, comment=about)


def _optional(name: str, kind: Any, about: str) -> Column[Any]:
    return Column(name, kind, comment=about)


SCHEMA = Table(
    "nsys2prv_schema", METADATA, _filled("version", Integer, "Version of the tables"), comment="One row for the tables"
)
RUNS = Table(
    "runs",
    METADATA,
    Column("id", Integer, primary_key=True, comment="Number of the run"),
    _filled("name", Name, "Its name, by default that of its folder or report"),
    _filled("program", Name, "Names of its programs"),
    _optional("began", Utc, "Begin of the recording, UTC"),
    _filled("recorded", Utc, "When the run came into the database, UTC"),
    _filled("version", Text, "Version of nsys2prv"),
    _filled("nsys", JSON, "Versions of nsys"),
    _filled("gpu_models", JSON, "Models of the GPUs"),
    _filled("reports", JSON, "Paths of the reports"),
    _filled("reports_hash", Text, "Hash of names, sizes and beginnings of the reports"),
    _optional("trace", Name, "Path of its trace"),
    _filled("options", JSON, "Options that differ from the default"),
    _filled("ranks", Integer, "Number of ranks"),
    _filled("gpus", Integer, "Number of GPUs"),
    _filled("nccl", Text, "What NCCL kernels count as: communication or useful"),
    _filled("window", Name, "The window that the figures cover"),
    _filled("window_ns", BigInteger, "Its length"),
    _optional("iteration_pattern", Name, "NVTX range of an iteration"),
    _filled("iterations", Integer, "Number of iterations in the window"),
    _optional(
        "iteration_ns", Double, "Median of the steady iterations, each from its first device activity to the next one"
    ),
    _filled("parallel", Double, "Parallel efficiency of the GPUs"),
    _filled("load_balance", Double, "Its part load balance"),
    _filled("communication", Double, "Its part communication"),
    _filled("orchestration", Double, "Its part orchestration"),
    comment="A run a row",
    # A number is never given again: rows of a run that was deleted by hand may still have it.
    sqlite_autoincrement=True,
)
# The same run recorded again takes the place of the first.
Index("runs_once", RUNS.c.name, RUNS.c.reports_hash, unique=True)
Index("runs_by_program", RUNS.c.program, RUNS.c.began)

TASKS = Table(
    "tasks",
    METADATA,
    _of_run(),
    _key("rank", Integer, "Its rank"),
    _filled("program", Name, "Its program"),
    _filled("name", Name, "Its name in the trace"),
    _filled("host", Name, "Its host"),
    comment="A process a row",
)
DEVICES = Table(
    "devices",
    METADATA,
    _of_run(),
    _key("number", Integer, "Place of the GPU in the run"),
    _filled("host", Name, "Its host"),
    _filled("gpu", Integer, "Its number there"),
    _filled("rank", Integer, "Lowest rank that uses it"),
    _filled("useful_ns", BigInteger, "Time in which it computes"),
    _filled("busy_ns", BigInteger, "Time in which it does anything"),
    comment="A GPU a row, in the window",
)
FIGURES = Table(
    "figures",
    METADATA,
    _of_run(),
    _key("position", Integer, "Place in the table of `compare`"),
    _filled("what", Name, "What the figure is of: efficiency, overlap, `kernel, total_ns`, ..."),
    _filled("name", Name, "Its name there"),
    _optional("value", Double, "Its value: ns, or a fraction of 1; sums over the window"),
    comment="The figures that `compare` compares",
)
FINDINGS = Table(
    "findings",
    METADATA,
    _of_run(),
    _key("position", Integer, "Place, 0 for the first: high defects, then by cost"),
    _filled("id", Text, "Its rule"),
    _filled("severity", Text, "high, medium or low"),
    _filled("title", Name, "Its title"),
    _filled("cost_ns", BigInteger, "What it costs an iteration"),
    _filled("share", Double, "What it costs as a fraction of 1; of pauses, of the run"),
    _filled("ranks", JSON, "Its ranks; empty: all"),
    _filled("iterations", JSON, "Its iterations; empty: all"),
    _filled("evidence", JSON, "Figures by name"),
    _filled("confidence", Text, "high, medium or low"),
    _filled("advice", Name, "What to do"),
    _filled("command", Name, "The next command"),
    _filled("cfg", Text, "The cfg that shows it"),
    _optional("at_ns", BigInteger, "When in the trace"),
    comment="The findings, a row each",
)
# Meaning of the columns of ITERATION.
_ABOUT_ITERATIONS = {
    "steady": "It is in the steady part",
    "start_ns": "Its begin in the trace",
    "total_ns": "Time of its range on the host",
    "own_ns": "Time of the rank without waiting for others",
    "device_start_ns": "Begin of its first device activity",
    "device_ns": "First to last device activity",
    "compute_ns": "Computing",
    "communication_ns": "Communicating",
    "exposed_ns": "Communicating while no kernel computes",
    "idle_ns": "Within `device_ns`: the device runs nothing, of any iteration",
    "mpi_ns": "In MPI calls",
    "to_first_collective_ns": "First device activity to first NCCL kernel",
}
ITERATIONS = Table(
    "iterations",
    METADATA,
    _of_run(),
    _key("repeat", Integer, "Pass of the number, such as an epoch, from 0"),
    _key("iteration", BigInteger, "Number of the iteration"),
    _key("rank", Integer, "The rank"),
    *(
        _optional(name, Boolean if kind == pl.Boolean else BigInteger, _ABOUT_ITERATIONS.get(name, f"In {name[:-3]}"))
        for name, kind in ITERATION.items()
        if name not in ("repeat", "iteration", "rank")
    ),
    comment="A rank's part of an iteration a row",
)
KERNEL_CLASSES = Table(
    "kernel_classes",
    METADATA,
    _of_run(),
    _key("rank", Integer, "The rank"),
    _key("class", Name, "The class, such as GEMM tn 128x128x64"),
    _filled("family", Name, "Its family, such as GEMM"),
    _filled("instances", BigInteger, "Number of kernels"),
    _filled("total_ns", BigInteger, "Their time"),
    comment="A class of kernels on a rank a row, in the window",
)
# Tables with rows of one run, beside RUNS.
PARTS = (TASKS, DEVICES, FIGURES, FINDINGS, ITERATIONS, KERNEL_CLASSES)

"""Rows that a database keeps of a run, made from an analysis, and written whole or not at all."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from sqlalchemy import Table, delete, insert, select

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.compare.run_figures import RunFigures, program_of, run_figures
from nsys2prv.analysis.iterations.iteration_lengths import iteration_lengths
from nsys2prv.analysis.recording.circumstances import Recording
from nsys2prv.database import schema
from nsys2prv.database.connection import address, transaction
from nsys2prv.database.migrations import check_version
from nsys2prv.database.recorded import Recorded
from nsys2prv.database.schema import RUNS
from nsys2prv.model.version import VERSION
from nsys2prv.report.fingerprint import files_of, hash_of_begin

Row = Mapping[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RunRecord(NamedTuple):
    """The rows of one run: that of RUNS, and by table those of the others, without the number of the run."""

    run: Row
    parts: Mapping[Table, Sequence[Row]]


def run_record(analysis: Analysis, name: str, trace: Path | None, options: Sequence[str]) -> RunRecord:
    """Return the rows of an analysis. `trace`: where its trace lies; `options`: as on a command line."""
    side, recording, e = run_figures(analysis, name), analysis.run.recording, analysis.efficiency
    lengths = iteration_lengths(analysis.iterations)
    run = {
        "name": name,
        "program": side.program,
        "began": None if recording.began is None else EPOCH + timedelta(microseconds=recording.began // 1000),
        "recorded": datetime.now(UTC),
        "version": VERSION,
        "nsys": list(recording.nsys),
        "gpu_models": list(recording.gpus),
        "reports": [str(path.absolute()) for path in recording.reports],
        "reports_hash": reports_hash(recording),
        "trace": None if trace is None else str(trace.absolute()),
        "options": list(options),
        "ranks": side.ranks,
        "gpus": side.gpus,
        "nccl": side.nccl,
        "window": side.window,
        "window_ns": analysis.window.spans.total(),
        "iteration_pattern": side.iteration_pattern,
        "iterations": side.kept,
        "iteration_ns": float(np.median(lengths)) if len(lengths) else None,
        "parallel": e.parallel,
        "load_balance": e.load_balance,
        "communication": e.communication,
        "orchestration": e.orchestration,
    }
    return RunRecord(run, _parts(analysis, side))


def _parts(analysis: Analysis, side: RunFigures) -> dict[Table, list[dict[str, Any]]]:
    """Return the rows of an analysis for each table beside RUNS. `side`: the figures that `compare` compares."""
    return {
        schema.TASKS: [
            {"rank": t.rank, "program": program_of(t.name), "name": t.name, "host": t.host}
            for t in analysis.run.tasks
            if t.is_rank
        ],
        schema.DEVICES: [
            {"number": n, **one.device._asdict(), "useful_ns": one.useful_ns, "busy_ns": one.busy_ns}
            for n, one in enumerate(analysis.efficiency.devices)
        ],
        schema.FIGURES: [
            {"position": n, "what": what, "name": figure, "value": value if math.isfinite(value) else None}
            for n, ((what, figure), value) in enumerate(side.figures.items())
        ],
        schema.FINDINGS: [{"position": n, **one.as_json()} for n, one in enumerate(analysis.findings)],
        schema.ITERATIONS: analysis.iterations.to_dicts(),
        schema.KERNEL_CLASSES: _kernel_classes(analysis).to_dicts(),
    }


def _kernel_classes(analysis: Analysis) -> pl.DataFrame:
    """Return rank, class, family, instances and total_ns of the kernels in the window."""
    families = analysis.run.work.select(pl.col("class", "family").cast(pl.String)).unique("class")
    by_class = analysis.kernels.drop_nulls("rank").group_by("rank", "class").agg(pl.col("instances", "total_ns").sum())
    return by_class.join(families, on="class").sort("rank", "total_ns", "class", descending=[False, True, False])


def reports_hash(recording: Recording) -> str:
    """Return a hash of what is in the reports of a run: names, sizes and beginnings of the files, and its begin.

    Copies in another folder have the same.
    """
    digest = hashlib.sha256(str(recording.began).encode())
    for report in sorted(recording.reports, key=lambda path: path.name):
        for file in files_of(report):
            digest.update(repr((report.name, file.name, file.stat().st_size, hash_of_begin(file))).encode())
    return digest.hexdigest()


def store(db: str | Path, record: RunRecord) -> Recorded:
    """Write a run in one transaction, in the place of one of the same name and reports. Raises OutputError."""
    url, run = address(db), record.run
    with transaction(url, key=f"{run['name']} {run['reports_hash']}") as connection:
        check_version(connection, url)
        same = (RUNS.c.name == run["name"]) & (RUNS.c.reports_hash == run["reports_hash"])
        former = connection.execute(select(RUNS.c.id).where(same)).scalar_one_or_none()
        connection.execute(delete(RUNS).where(same))
        # A run that is recorded again keeps its number.
        own = {} if former is None else {"id": former}
        (number,) = connection.execute(insert(RUNS).values({**run, **own})).inserted_primary_key or (None,)
        for table, rows in record.parts.items():
            if rows:
                connection.execute(insert(table), [{**row, "run_id": number} for row in rows])
    # With the address as it was given: to compare with the run, it is connected to again.
    return Recorded(db, run["name"], number, former is not None)

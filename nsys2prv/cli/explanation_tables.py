"""Tables of an explanation: critical path, causes of idle time, contention, and predictions."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis import shown_tables as shown
from nsys2prv.analysis.explanation import Explanation
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.idle.idle_causes import CAUSES
from nsys2prv.cli.text_table import Section, section

# Highest number of rows of a table.
MOST_ROWS = 12


def explanation_sections(explanation: Explanation, run: Run) -> Iterator[Section]:
    """Yield name, title, heads and rows of each table."""
    yield _causes(explanation)
    if explanation.predictions:
        yield _path(explanation)
    yield _path_by_rank(explanation, run)
    yield _idle(explanation)
    yield _predictions(explanation)
    yield _contention(explanation)
    yield _stages(explanation)


def _causes(explanation: Explanation) -> Section:
    of_gpus = set(explanation.exposed.drop_nulls("late_device")["rank"])
    causes = explanation.causes.head(MOST_ROWS).to_dicts()
    told = [
        {
            **row,
            "ranks": "its own GPUs" if not row["ranks"] and row["rank"] in of_gpus else row["ranks"],
            "iterations": f"{row['iterations']} of {row['of_iterations']}" if row["of_iterations"] else "",
        }
        for row in shown.with_percent(causes, "percent", "ns", int(explanation.causes["ns"].sum()))
    ]
    return section(shown.CAUSES, ("rank", "kind", "name", "ns", "percent", "ranks", "iterations"), told)


def _path(explanation: Explanation) -> Section:
    length = int((explanation.path["end"] - explanation.path["start"]).sum())
    rows = explanation.path_by("kind", "family").head(MOST_ROWS).to_dicts()
    columns = ("kind", "family", "ns", "percent")
    return section(shown.CRITICAL_PATH, columns, shown.with_percent(rows, "percent", "ns", length))


def _path_by_rank(explanation: Explanation, run: Run) -> Section:
    times = explanation.path_by("task").drop_nulls("task").head(MOST_ROWS)
    rows = [{"rank": run.rank(task), "ns": ns} for task, ns in times.rows()]
    return section(shown.CRITICAL_PATH_RANKS, ("rank", "ns"), rows)


def _idle(explanation: Explanation) -> Section:
    whole = explanation.idle.filter(pl.col("span").is_null())
    rows = whole.sort("idle_ns", descending=True).head(MOST_ROWS).to_dicts()
    return section(shown.IDLE_CAUSES, ("rank", "gpu", "idle_ns", *CAUSES), rows)


def _predictions(explanation: Explanation) -> Section:
    rows = [
        {
            "change": ", ".join(p.changes),
            "measured_ns": round(p.measured_ns),
            "iteration_ns": round(p.iteration_ns),
            "gain": p.gain,
            "replay_error_percent": 100 * p.replay_error,
        }
        for p in explanation.predictions
    ]
    without = any(p.iterations["iteration"].null_count() for p in explanation.predictions)
    table = shown.WHAT_IF_OF_WINDOW if without else shown.WHAT_IF
    return section(table, ("change", "measured_ns", "iteration_ns", "gain", "replay_error_percent"), rows)


def _contention(explanation: Explanation) -> Section:
    lost = pl.col("waiting_ns") + pl.col("transfer_ns")
    rows = explanation.contention.head(MOST_ROWS).with_columns(lost_ns=lost).to_dicts()
    factors = ("waiting", "waiting_error", "transfer", "transfer_error")
    return section(shown.CONTENTION, ("family", *factors, "lost_ns"), rows)


def _stages(explanation: Explanation) -> Section:
    columns = [c for c in explanation.stages.columns if c != "iterations"]
    return section(shown.PIPELINE, columns, explanation.stages.head(MOST_ROWS).to_dicts())

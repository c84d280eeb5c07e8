"""Tables of an explanation for the terminal: waiting, critical path, causes of idle time, predictions, contention."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis import shown_tables as shown
from nsys2prv.analysis.communication.exposed_waits import waiting_of_gpus
from nsys2prv.analysis.communication.waiting import ALL_OPERATIONS
from nsys2prv.analysis.explanation import Explanation
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.idle.idle_causes import CAUSES
from nsys2prv.analysis.sentences import below_clock_error
from nsys2prv.cli.text_table import TABLE_ROWS, Section, ms, section

# Highest number of ranks in a matrix: of more, the pairs that wait longest show.
MATRIX_RANKS = 16
# Highest number of rows of tables of waiting, of which those that wait longest show, and of the other tables.
MOST_WAITS, MOST_ROWS = 3 * TABLE_ROWS, 12


def waiting_sections(explanation: Explanation, run: Run) -> Iterator[Section]:
    """Yield name, title, heads and rows of each table."""
    yield _split(explanation)
    uncertain = below_clock_error(run.clocks.error)
    note = f" ({uncertain})" if uncertain else ""
    many = any(explanation.waiting[side].n_unique() > MATRIX_RANKS for side in ("rank", "waited_for"))
    yield _pairs(explanation, note) if many else _matrix(explanation, note)
    yield _gpus(explanation, run)


def _split(explanation: Explanation) -> Section:
    table = explanation.communication
    # Of equal ones the first stays: the sums of a rank come before its operations.
    by_waiting = table.with_row_index("nth").sort("waiting_ns", descending=True, maintain_order=True)
    longest = by_waiting.head(MOST_WAITS).sort("nth")
    rows = shown.with_percent(longest.to_dicts(), "waiting_percent", "waiting_ns", "ns")
    rows = [{**row, "hosts": "" if row["operation"] == ALL_OPERATIONS else row["hosts"]} for row in rows]
    if more := table.height - longest.height:
        rows.append({"rank": f"(less waiting, not shown: {more})"})
    # Columns that most runs have no need of.
    further = [c for c in ("unmatched_ns", "uncertain_ns") if table[c].sum()]
    named = ("rank", "communicator", "operation", "hosts", "activities")
    columns = (*named, "ns", "waiting_ns", "transfer_ns", *further, "waiting_percent")
    return section(shown.COMMUNICATION, columns, rows)


def _matrix(explanation: Explanation, note: str) -> Section:
    """Return a row for each rank that waits, and a column for each that is waited for, in ms.

    `note`: behind the title.
    """
    waited_for = explanation.waiting["waited_for"].unique().sort(nulls_last=True).to_list()
    times = {
        (rank, other): ns for rank, other, ns in explanation.waiting.select("rank", "waited_for", "waiting_ns").rows()
    }
    ranks = sorted({rank for rank, _ in times})
    rows = [[str(rank), *(ms(times[rank, o]) if (rank, o) in times else "" for o in waited_for)] for rank in ranks]
    head = ["rank", *(f"ms for {_name(other)}" for other in waited_for)]
    return shown.WAITING.section, shown.WAITING.title + note, head, rows


def _pairs(explanation: Explanation, note: str) -> Section:
    longest = explanation.waiting.sort("waiting_ns", "rank", "waited_for", descending=[True, False, False])
    columns = ("rank", "waited_for", "activities", "waiting_ns")
    return section(shown.WAITING, columns, longest.head(MOST_WAITS).to_dicts(), note)


def _gpus(explanation: Explanation, run: Run) -> Section:
    waits = waiting_of_gpus(run, explanation.exposed)
    longest = waits.sort("waiting_ns", "rank", "gpu", "gpu_waited_for", descending=[True, False, False, False])
    columns = ("rank", "gpu", "gpu_waited_for", "activities", "waiting_ns")
    return section(shown.WAITING_OF_GPUS, columns, longest.head(MOST_WAITS).to_dicts())


def _name(rank: int | None) -> str:
    return "another rank" if rank is None else f"rank {rank}"


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
    rows = [
        {
            **row,
            "ranks": "its own GPUs" if not row["ranks"] and row["rank"] in of_gpus else row["ranks"],
            "iterations": f"{row['iterations']} of {row['of_iterations']}" if row["of_iterations"] else "",
        }
        for row in shown.with_percent(causes, "percent", "ns", int(explanation.causes["ns"].sum()))
    ]
    return section(shown.CAUSES, ("rank", "kind", "name", "ns", "percent", "ranks", "iterations"), rows)


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

"""Objects of the trace: nodes, tasks and rows, and the row of each place of each report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.errors import UsageError
from nsys2prv.model.interning import GPU, STREAM, THREAD
from nsys2prv.model.words import NAMES_SHOWN, few
from nsys2prv.run.hosts import Host
from nsys2prv.run.places import (
    RowDecisions,
    all_places,
    assign_gpu_places,
    decide_rows,
    places_with_rows,
    profiler_threads,
)
from nsys2prv.run.ranks import numbers_of_tasks, tasks_of_ranks
from nsys2prv.run.report_summary import Summary
from nsys2prv.run.tasks import Task
from nsys2prv.run.trace_rows import NO_ROW, TraceRows

# 65,535 CPUs crash Paraver, and every row has one.
MAX_ROWS = 65534

_KIND_ORDER = {THREAD: 0, STREAM: 1, GPU: 2}
_ROW_KEY = ("task", "kind", "minor", "tid", "gpu", "stream", "device", "context", "lane")


class Objects(NamedTuple):
    """Nodes and tasks by name, rows, and for each report the row of each of its places (NO_ROW: not drawn)."""

    # Names of the programs that run.
    application: str
    nodes: tuple[str, ...]
    cpus: tuple[int, ...]
    tasks: tuple[str, ...]
    # Global rank of each task, None if unknown; its number where ranks were chosen.
    ranks: tuple[int | None, ...]
    # Node (1-based) and number of threads of each task.
    task_node: tuple[int, ...]
    task_threads: tuple[int, ...]
    rows: TraceRows
    row_of: tuple[npt.NDArray[np.int64], ...]
    # For each report masks of the places whose rank was not chosen, and of the profiler's threads where all others have
    # a row.
    unchosen: tuple[npt.NDArray[np.bool_], ...]
    of_profiler: tuple[npt.NDArray[np.bool_], ...]
    # Numbers (1-based) of the tasks that several reports recorded.
    shared: frozenset[int]
    decisions: RowDecisions
    # Ranks and numbers of all tasks of the run, chosen or not (see numbers_of_tasks).
    known: frozenset[int] = frozenset()


class _Hidden(NamedTuple):
    """Places without a row for reasons of their own: see Objects. Columns report and id are read."""

    unchosen: pl.DataFrame
    of_profiler: pl.DataFrame


def build_objects(
    summaries: Sequence[Summary],
    hosts: Sequence[Host],
    tasks: Sequence[Task],
    chosen: frozenset[int] | None,
    every_thread: bool,
    decisions: RowDecisions | None = None,
) -> Objects:
    """Number the nodes, tasks and rows. Raises UsageError on too many rows, and if no task is chosen.

    `chosen`: ranks to keep, and numbers of tasks without one, as the analysis gives them (None: all); `decisions`:
    those on the whole run, if these reports are only a part of its time; `every_thread`: see decide_rows.
    """
    places = all_places(summaries, hosts, tasks)
    decisions = decisions or decide_rows(places, every_thread)
    drawn = places_with_rows(places, decisions.threads)
    metrics, lone_gpu_hosts = assign_gpu_places(drawn, decisions.gpu_users, hosts, tasks)
    drawn = pl.concat([drawn.filter(pl.col("kind") != GPU), metrics])
    keyed = _with_row_keys(drawn)
    # A place makes no row if lines only arrive there, in all reports.
    keyed = keyed.filter(pl.col("rows").sum().over(_ROW_KEY) > 0)
    numbers = _numbers_to_choose(tasks, keyed)
    keep = _kept_tasks(tasks, lone_gpu_hosts, numbers, chosen)
    placed = pl.concat([places.filter(pl.col("kind") != GPU), metrics.select(places.columns)])
    unchosen = placed.filter(~pl.col("task").is_in(keep))
    keyed = keyed.filter(pl.col("task").is_in(keep))
    rows = _number_rows(keyed)
    if rows.height > MAX_ROWS:
        advice = "choose fewer ranks (--ranks) or families with fewer threads"
        raise UsageError(f"the trace would have {rows.height} rows, and Paraver takes at most {MAX_ROWS}; {advice}")
    # Otherwise they count among the threads that --threads all would draw.
    profilers = profiler_threads(places) if every_thread else places.clear()
    hidden = _Hidden(unchosen, profilers)
    objects = _objects(summaries, hosts, tasks, lone_gpu_hosts, keyed, rows, hidden, decisions)
    ranks = objects.ranks if chosen is None else tuple(numbers[t] for t in rows["task"].unique().sort())
    return objects._replace(ranks=ranks, known=frozenset(numbers.values()))


def _numbers_to_choose(tasks: Sequence[Task], keyed: pl.DataFrame) -> dict[int, int]:
    """Return the number by which --ranks chooses each task: its rank, or the number that the analysis gives it.

    Helpers, without a rank and without device work beside tasks that have either, cannot be chosen.
    """
    known = {n: task.rank for n, task in enumerate(tasks) if task.rank is not None}
    present = keyed["task"].unique().sort().to_list()
    ranks = [known.get(n) for n in present]
    streams = set(keyed.filter(kind=_KIND_ORDER[STREAM])["task"])
    chosen_by = numbers_of_tasks(ranks)
    of_run = tasks_of_ranks(ranks, {n for n, task in enumerate(present) if task in streams})
    return known | {present[n]: chosen_by[n] for n in of_run}


def _kept_tasks(
    tasks: Sequence[Task], lone_gpu_hosts: Sequence[int], numbers: Mapping[int, int], chosen: frozenset[int] | None
) -> list[int]:
    """Return the chosen tasks, by rank or number. Raises UsageError if there are none."""
    every = range(len(tasks) + len(lone_gpu_hosts))
    if chosen is None:
        return list(every)
    of_rank = {n for n, task in enumerate(tasks) if task.rank in chosen}
    kept = [n for n in every if n in of_rank or numbers.get(n) in chosen]
    if not kept:
        known = few([str(number) for number in sorted(set(numbers.values()))], NAMES_SHOWN) or "none"
        raise UsageError(f"--ranks: no task has one of the chosen ranks; the reports' ranks are: {known}")
    return kept


def _number_rows(keyed: pl.DataFrame) -> pl.DataFrame:
    """Number rows by task, then host threads (main first), streams by (GPU, stream), metrics; lanes together."""
    rows = keyed.group_by(_ROW_KEY).agg(pl.col("name", "host").first()).sort(_ROW_KEY, nulls_last=False)
    return rows.with_row_index("row")


def _with_row_keys(drawn: pl.DataFrame) -> pl.DataFrame:
    """Add the columns of _ROW_KEY, which identify and sort rows."""
    return drawn.with_columns(
        # The host's number of a GPU is there: the process' number adds nothing.
        device=pl.when(pl.col("kind") == GPU).then("gpu").otherwise("device"),
        kind=pl.col("kind").replace_strict(_KIND_ORDER, return_dtype=pl.Int64),
        minor=(pl.col("thread") != pl.col("pid")).cast(pl.Int64),
        tid="thread",
    )


def _objects(
    summaries: Sequence[Summary],
    hosts: Sequence[Host],
    tasks: Sequence[Task],
    lone_gpu_hosts: Sequence[int],
    keyed: pl.DataFrame,
    rows: pl.DataFrame,
    hidden: _Hidden,
    decisions: RowDecisions,
) -> Objects:
    """Return the objects of a trace with numbered `rows`.

    `lone_gpu_hosts`: see assign_gpu_places; `keyed`: the places that have these rows, with the columns of _ROW_KEY.
    """
    present = rows["task"].unique().sort().to_list()
    node_hosts = list(dict.fromkeys(rows["host"].to_list()))
    names = [t.label for t in tasks] + [f"{hosts[h].name} GPUs" for h in lone_gpu_hosts]
    ranks = [t.rank for t in tasks] + [None] * len(lone_gpu_hosts)
    task_number = {task: n for n, task in enumerate(present, start=1)}
    node_number = {host: n for n, host in enumerate(node_hosts, start=1)}
    threads = rows.group_by("task", maintain_order=True).agg(pl.len(), pl.col("host").first())
    cpus = tuple(int((rows["host"] == h).sum()) for h in node_hosts)
    programs = sorted({tasks[t].name for t in present if t < len(tasks)})
    return Objects(
        application=", ".join(programs) or "run",
        nodes=tuple(hosts[h].name for h in node_hosts),
        cpus=cpus,
        tasks=tuple(names[t] for t in present),
        ranks=tuple(ranks[t] for t in present),
        task_node=tuple(node_number[h] for h in threads["host"]),
        task_threads=tuple(threads["len"].to_list()),
        rows=_trace_rows(rows, task_number, dict(zip(node_hosts, np.cumsum([0, *cpus])[:-1].tolist(), strict=True))),
        row_of=_row_of(summaries, keyed, rows),
        unchosen=_masks(summaries, hidden.unchosen),
        of_profiler=_masks(summaries, hidden.of_profiler),
        shared=frozenset(task_number[n] for n, t in enumerate(tasks) if len(t.recorded) > 1 and n in task_number),
        decisions=decisions,
    )


def _trace_rows(rows: pl.DataFrame, task_number: Mapping[int, int], first_cpu: Mapping[int, int]) -> TraceRows:
    """Return numbered rows as those of a trace. `first_cpu`: the CPUs before those of each host (index)."""
    kinds = {number: kind for kind, number in _KIND_ORDER.items()}
    on_node = rows.select(pl.int_range(pl.len()).over("host")).to_series()
    first_lane = pl.col("row").min().over(c for c in _ROW_KEY if c != "lane").cast(pl.Int64)
    return TraceRows(
        task=np.array([task_number[t] for t in rows["task"]], dtype=np.int64),
        thread=rows.select((pl.int_range(pl.len()) + 1).over("task")).to_series().to_numpy().astype(np.int64),
        cpu=(on_node + 1 + rows["host"].replace_strict(first_cpu, return_dtype=pl.Int64)).to_numpy(),
        label=tuple(_label(row) for row in rows.rows(named=True)),
        kind=tuple(kinds[k] for k in rows["kind"]),
        gpu=rows["gpu"].fill_null(NO_ROW).to_numpy(),
        stream=rows["stream"].fill_null(NO_ROW).to_numpy(),
        first_lane=rows.select(first_lane).to_series().to_numpy(),
    )


def _label(row: dict[str, object]) -> str:
    """Label a row. Other tools look for `CUDA-D<gpu>.S<stream>` and `Metrics GPU<n>`; a lane has its stream's label."""
    if row["kind"] == _KIND_ORDER[STREAM]:
        return f"CUDA-D{row['gpu']}.S{row['stream']}"
    if row["kind"] == _KIND_ORDER[GPU]:
        return f"Metrics GPU{row['gpu']}"
    return f"{row['name'] or 'thread'} {row['tid']}"


def _row_of(summaries: Sequence[Summary], keyed: pl.DataFrame, rows: pl.DataFrame) -> tuple[npt.NDArray[np.int64], ...]:
    """Return for each report the row of each of its places, NO_ROW without one."""
    numbered = keyed.join(rows.select("row", *_ROW_KEY), on=_ROW_KEY, how="inner", nulls_equal=True)
    result = []
    for report, summary in enumerate(summaries):
        own = numbered.filter(pl.col("report") == report)
        table = np.full(summary.places.height, NO_ROW, dtype=np.int64)
        table[own["id"].to_numpy()] = own["row"].to_numpy()
        result.append(table)
    return tuple(result)


def _masks(summaries: Sequence[Summary], places: pl.DataFrame) -> tuple[npt.NDArray[np.bool_], ...]:
    """Return a mask for each report: true for the places among these."""
    ids = dict(places.group_by("report").agg("id").rows())
    return tuple(np.isin(np.arange(s.places.height), ids.get(r, [])) for r, s in enumerate(summaries))

"""The places of all reports with what tells whose they are, and which of them get a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.model.global_ids import pid_of
from nsys2prv.model.interning import GPU, STREAM, THREAD
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.hosts import Host, host_numbers
from nsys2prv.run.report_summary import Summary
from nsys2prv.run.tasks import RecordedProcess, Task

# Threads that the profiler itself runs inside the process.
PROFILER_THREAD = r"^\[?NSys\b|^CUPTI worker thread$"

# Host (index), the GPU's number on it, and a task.
GPU_USER = {"host": pl.Int64(), "gpu": pl.Int64(), "user": pl.Int64()}


class RowDecisions(NamedTuple):
    """Decisions on the rows of a whole run, which hold in a trace of a part of its time, too.

    `gpu_users`: tasks that use GPUs (GPU_USER); `threads`: host threads with a row, as (task, thread id).
    """

    gpu_users: pl.DataFrame
    threads: frozenset[tuple[int, int]]


def all_places(summaries: Sequence[Summary], hosts: Sequence[Host], tasks: Sequence[Task]) -> pl.DataFrame:
    """Collect the used places of all reports (PLACE), with whose they are.

    Further columns: report, host (index), task (index; null: none), name (of a thread), pid, rows, makes_rows. `gpu` is
    the number on the host.
    """
    host_of = host_numbers(hosts)
    task_of = {process: number for number, task in enumerate(tasks) for process in task.recorded}
    of_reports = []
    for report, summary in enumerate(summaries):
        host = hosts[host_of[report]]
        used = summary.uses.group_by("place").agg(pl.col("makes_rows").any(), pl.col("rows").sum())
        own = summary.places.join(used, left_on="id", right_on="place", how="inner", maintain_order="left")
        numbers = [
            _gpu_number(host, summary, process, device, gpu)
            for process, device, gpu in own.select("process", "device", "gpu").rows()
        ]
        names = summary.identity.thread_names
        of_reports.append(
            own.with_columns(
                report=pl.lit(report, pl.Int64),
                host=pl.lit(host_of[report], pl.Int64),
                task=pl.Series([task_of.get(RecordedProcess(report, p)) for p in own["process"]], dtype=pl.Int64),
                gpu=pl.Series(numbers, dtype=pl.Int64),
                name=pl.Series(
                    [names.get((p or 0) + (t or 0), "") for p, t in own.select("process", "thread").rows()],
                    dtype=pl.String,
                ),
                pid=pl.Series([None if p is None else pid_of(p) for p in own["process"]], dtype=pl.Int64),
            )
        )
    return pl.concat(of_reports)


def _gpu_number(host: Host, summary: Summary, process: int | None, device: int | None, gpu: int | None) -> int | None:
    """Return the number of a GPU on its host, from the process' number or the report's number of it."""
    if gpu is not None:
        known = next((g for g in summary.identity.gpus if g.id == gpu), None)
        return gpu if known is None else host.gpu_number(known)
    return None if device is None else host.gpu_number(summary.identity.gpu_of(pid_of(process or 0), device))


def _with_thread_names(places: pl.DataFrame) -> pl.DataFrame:
    """Name each thread in all reports as the first report that has its name does."""
    first = pl.col("name").sort_by(pl.col("name") == "", "report").first()
    return places.with_columns(name=first.over("task", "thread"))


def decide_rows(places: pl.DataFrame, every_thread: bool) -> RowDecisions:
    """Decide which places of a whole run (see all_places) get a row. `every_thread`: draw all threads of programs."""
    return RowDecisions(_gpu_users(places), _threads_with_rows(places, every_thread))


def profiler_threads(places: pl.DataFrame) -> pl.DataFrame:
    """Return the places that are threads of the profiler."""
    of_profiler = (pl.col("kind") == THREAD) & pl.col("name").str.contains(PROFILER_THREAD)
    return _with_thread_names(places).filter(of_profiler)


def _threads_with_rows(places: pl.DataFrame, every_thread: bool) -> frozenset[tuple[int, int]]:
    """Return the threads that get a row: those with events of a family that makes rows, in any report.

    With `every_thread`, and in reports in which no thread has such events and no stream has rows, all threads but the
    profiler's own get one, too.
    """
    named = _with_thread_names(places.filter(pl.col("task").is_not_null() & (pl.col("kind") != GPU)))
    active = named.with_columns(active=(pl.col("kind") == THREAD) & pl.col("makes_rows").any().over("task", "thread"))
    by_others = (pl.col("active") | ((pl.col("kind") == STREAM) & (pl.col("rows") > 0))).any().over("report")
    others = ~pl.col("name").str.contains(PROFILER_THREAD) & (every_thread | ~by_others)
    chosen = active.filter((pl.col("kind") == THREAD) & (pl.col("active") | others))
    return frozenset(chosen.select("task", "thread").drop_nulls().rows())


def places_with_rows(places: pl.DataFrame, threads: frozenset[tuple[int, int]]) -> pl.DataFrame:
    """Select the places that get a row: streams, GPUs, and these threads."""
    rows = pl.DataFrame(sorted(threads), schema={"task": pl.Int64, "thread": places.schema["thread"]}, orient="row")
    held = places.join(rows.with_columns(held=True), on=["task", "thread"], how="left", maintain_order="left")
    wanted = (pl.col("kind") != THREAD) | pl.col("held").fill_null(False)
    return _with_thread_names(
        held.filter(wanted & (pl.col("task").is_not_null() | (pl.col("kind") == GPU))).drop("held")
    )


def _gpu_users(places: pl.DataFrame) -> pl.DataFrame:
    """Find the lowest task with work on each GPU: columns of GPU_USER."""
    streams = places.filter((pl.col("kind") == STREAM) & (pl.col("rows") > 0))
    users = streams.group_by("host", "gpu").agg(user=pl.col("task").min()).sort("host", "gpu")
    return to_schema(users, GPU_USER)


def assign_gpu_places(
    drawn: pl.DataFrame, users: pl.DataFrame, hosts: Sequence[Host], tasks: Sequence[Task]
) -> tuple[pl.DataFrame, list[int]]:
    """Assign the places of GPUs, which have their metrics, to tasks; list the hosts that need a task for unused GPUs.

    Places of a process go to its task; others to the lowest of `users` (GPU_USER) of the GPU.
    """
    metrics = drawn.filter(pl.col("kind") == GPU)
    placed = metrics.join(users, on=["host", "gpu"], how="left", maintain_order="left")
    lonely = sorted(set(placed.filter(pl.coalesce("task", "user").is_null())["host"]))
    own_task = {host: len(tasks) + i for i, host in enumerate(sorted(lonely, key=lambda h: hosts[h].order))}
    fallback = pl.col("host").replace_strict(own_task, default=None, return_dtype=pl.Int64)
    placed = placed.with_columns(task=pl.coalesce("task", "user", fallback)).drop("user")
    return placed.select(drawn.columns), list(own_task)

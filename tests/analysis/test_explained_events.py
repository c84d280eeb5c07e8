"""Critical path, causes of idle time and launch queues in the trace: what `analyze` says, on rows where it can be."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from runs import parameters, reports_of

import nsys2prv
from nsys2prv.analysis.idle.idle_causes import COLUMNS
from nsys2prv.analysis.question import Question
from nsys2prv.families.selection import default_families
from nsys2prv.intervals.classes import load_rules
from nsys2prv.model.event_types import (
    CRITICAL_PATH,
    GRAPH,
    IDLE_CAUSE,
    KERNEL,
    KERNEL_FAMILY,
    LAUNCH_QUEUE,
    MEMORY,
    NCCL_KERNEL,
)
from nsys2prv.run.numbering import number_texts

CHOSEN = nsys2prv.Selection((*default_families(), "critical_path", "idle_causes"))
ON_DEVICE = (KERNEL, NCCL_KERNEL, MEMORY, GRAPH)
RUNS = parameters("gpt-ddp", "mpi-halo", "mesh-tp-pp", "fsdp")


def drawn(trace: nsys2prv.Trace, kind: int) -> pl.DataFrame:
    """The events of a type in order of task and time: task (from 1), thread, start, end, label."""
    return trace.intervals(kind).select("task", "thread", "start", "end", "label").sort("task", "start")


def translated(reports: list[Path], output: Path, **how: object) -> nsys2prv.Trace:
    result = nsys2prv.translate(reports, output, **{"selection": CHOSEN, **how})  # type: ignore[arg-type]
    assert result.prv is not None
    return nsys2prv.read_prv(result.prv)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("window", ["steady", "trace"])
def test_events_add_up_to_the_figures_of_analyze(run: str, window: str, output: Path) -> None:
    reports = reports_of(run)
    trace = translated(reports, output, writing=nsys2prv.TraceOutput(window=window))
    found = nsys2prv.analyze(reports, question=Question(window=window)).explanation
    path = drawn(trace, CRITICAL_PATH.number).with_columns(ns=pl.col("end") - pl.col("start"))
    expected: dict[str, int] = {}
    for kind, family, ns in found.path_by("kind", "family").rows():
        expected[family or kind] = ns
    assert dict(path.group_by("label").agg(pl.col("ns").sum()).rows()) == expected
    # One row at a time.
    in_time = path.sort("start")
    assert (in_time["start"] >= in_time["end"].shift(1)).all()
    idle = drawn(trace, IDLE_CAUSE.number).with_columns(ns=pl.col("end") - pl.col("start"))
    sums = {(task, label): ns for task, label, ns in idle.group_by("task", "label").agg(pl.col("ns").sum()).rows()}
    whole = found.idle.filter(pl.col("span").is_null())
    # Each rank has a device of its own.
    causes = {
        (task, text): ns
        for text, column in COLUMNS.items()
        for task, ns in enumerate(whole[column].to_list(), start=1)
        if ns
    }
    assert sums == causes


@pytest.mark.parametrize("run", RUNS)
def test_no_device_works_while_it_idles(run: str, output: Path) -> None:
    trace = translated(reports_of(run), output)
    work = pl.concat(drawn(trace, kind.number) for kind in ON_DEVICE if kind.number in trace.types).select(
        "task", "start", "end"
    )
    idle = drawn(trace, IDLE_CAUSE.number).select("task", idle_start="start", idle_end="end")
    assert idle.height > 100
    both = work.join_where(
        idle.rename({"task": "other"}),
        pl.col("task") == pl.col("other"),
        pl.col("start") < pl.col("idle_end"),
        pl.col("end") > pl.col("idle_start"),
    )
    assert both.is_empty()


def test_a_part_of_the_time_has_the_path_of_its_own_window(gpt_ddp: list[Path], output: Path) -> None:
    span = (500_000_000, 560_000_000)
    chosen = nsys2prv.Selection(CHOSEN.families, time=span)
    trace = translated(gpt_ddp, output, selection=chosen, writing=nsys2prv.TraceOutput(window="trace"))
    path = drawn(trace, CRITICAL_PATH.number).sort("start")
    assert (path["end"] - path["start"]).sum() == span[1] - span[0]
    assert (path["start"][0], path["end"][-1]) == (0, span[1] - span[0])
    assert (path["start"][1:] == path["end"][:-1]).all()


def test_a_device_on_which_nothing_ran_idles_on_the_first_row_of_its_rank(mpi_halo: list[Path], tmp_path: Path) -> None:
    idle = tmp_path / mpi_halo[-1].name
    shutil.copyfile(mpi_halo[-1], idle)
    with closing(sqlite3.connect(idle)) as db:
        for name in ("KERNEL", "MEMCPY", "MEMSET"):
            db.execute(f"DELETE FROM CUPTI_ACTIVITY_KIND_{name}")
        db.commit()
    trace = translated([*mpi_halo[:-1], idle], tmp_path / "trace", writing=nsys2prv.TraceOutput(window="device"))
    last = drawn(trace, IDLE_CAUSE.number).filter(pl.col("task") == 4)
    low, high = nsys2prv.analyze([*mpi_halo[:-1], idle], question=Question(window="device")).run.active
    assert last.select("thread", pl.col("end") - pl.col("start"), "label").rows() == [(1, high - low, "unexplained")]


def test_each_alone_is_drawn_as_together(mpi_halo: list[Path], tmp_path: Path) -> None:
    both = translated(mpi_halo, tmp_path / "both")
    for name, kind in (("critical_path", CRITICAL_PATH), ("idle_causes", IDLE_CAUSE)):
        alone = translated(mpi_halo, tmp_path / name, selection=nsys2prv.Selection((*default_families(), name)))
        assert drawn(alone, kind.number).equals(drawn(both, kind.number))
        assert {CRITICAL_PATH.number, IDLE_CAUSE.number} & alone.types.keys() == {kind.number}


def test_a_run_without_work_and_communication_has_neither(output: Path) -> None:
    trace = translated(reports_of("openmp"), output)
    assert not {CRITICAL_PATH.number, IDLE_CAUSE.number} & trace.types.keys()


def test_compute_on_the_path_has_the_numbers_of_kernel_families() -> None:
    computing = sorted({rule.family for rule in load_rules().rules if not rule.communication} | {"other"})
    numbers = number_texts(CRITICAL_PATH.key, ["transfer", *computing])
    assert numbers == {"transfer": 1, **number_texts(KERNEL_FAMILY.key, computing)}


# The time that each activity waits after its launch, and launches and begins in order of time, an end before a begin.
WORK = """
    SELECT w.streamId AS stream, MIN(w.start, r.start) AS launched, w.start AS start
    FROM ({}) w JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
    ON r.correlationId = w.correlationId AND r.globalTid / 0x1000000 = w.globalPid / 0x1000000
"""
TABLES = ("KERNEL", "MEMCPY", "MEMSET")


def queues_by_sql(report: Path) -> dict[int, tuple[int, int]]:
    """By stream: the sum of all waits (ns), and the most activities that wait at once."""
    columns = "streamId, start, correlationId, globalPid"
    with closing(sqlite3.connect(report)) as db:
        known = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        tables = [name for name in (f"CUPTI_ACTIVITY_KIND_{t}" for t in TABLES) if name in known]
        rows = db.execute(WORK.format(" UNION ALL ".join(f"SELECT {columns} FROM {t}" for t in tables))).fetchall()
    found = {}
    for stream in {one for one, _, _ in rows}:
        own = [(launched, start) for one, launched, start in rows if one == stream]
        steps = sorted([(launched, 1) for launched, _ in own] + [(start, -1) for _, start in own])
        level = most = 0
        for _, step in steps:
            level += step
            most = max(most, level)
        found[stream] = (sum(start - launched for launched, start in own), most)
    return found


@pytest.mark.parametrize("run", parameters("gpt-ddp", "mpi-halo", "saxpy"))
def test_launch_queues_hold_the_work_that_waits(run: str, output: Path) -> None:
    """All of the work of these runs has its launch."""
    reports = reports_of(run)
    trace = translated(reports, output, selection=nsys2prv.Selection((*default_families(), "launch_queues")))
    queues = drawn(trace, LAUNCH_QUEUE.number).with_columns(
        waiting=pl.col("label").cast(pl.Int64), ns=pl.col("end") - pl.col("start")
    )
    by_stream = queues.group_by("task", "thread").agg(
        total=(pl.col("waiting") * pl.col("ns")).sum(), most=pl.col("waiting").max()
    )
    drawn_sums = sorted((total, most) for _, _, total, most in by_stream.rows())
    assert len(drawn_sums) > 0
    expected = [one for report in reports for one in queues_by_sql(report).values() if one[1]]
    # The most at once may differ where clocks of several reports are fitted, by rounding.
    assert [total for total, _ in drawn_sums] == pytest.approx([total for total, _ in sorted(expected)], rel=1e-3)
    assert max(most for _, most in drawn_sums) == pytest.approx(max(most for _, most in expected), abs=1)

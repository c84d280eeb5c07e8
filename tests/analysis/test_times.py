"""Times of an analysis are those of the trace that the same options make."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from analysis_cases import SAMPLES, run_of, work_of

import nsys2prv
from nsys2prv import Selection
from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.frames import TEXT, restricted
from nsys2prv.analysis.question import Question
from nsys2prv.run.run_options import RunOptions

OTHER_METRICS = "UPDATE TARGET_INFO_GPU_METRICS SET metricName = replace(metricName, 'Tensor Active', 'Other')"
# The first event of the run is of a family that analysis makes nothing of.
EARLY_CALL = "UPDATE SYSCALL SET start = -5000 WHERE rowid = 1"


def changed(name: str, folder: Path, *statements: str) -> Path:
    copy = Path(shutil.copy(SAMPLES / name, folder / "copy.sqlite"))
    with closing(sqlite3.connect(copy)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return copy


@pytest.mark.parametrize(
    ("name", "statements"),
    [
        ("gpt-ddp/gpt-ddp.0.0.sqlite", []),
        ("gpt-ddp/gpt-ddp.0.0.sqlite", [OTHER_METRICS]),
        ("../tests/data/system-calls/system-calls.sqlite", [EARLY_CALL]),
        ("single/openmp.sqlite", []),
    ],
)
@pytest.mark.parametrize("skip", [(), ("gpu_metrics", "system_calls")])
def test_zero_is_the_first_event_of_the_trace(
    name: str, statements: list[str], skip: tuple[str, ...], tmp_path: Path
) -> None:
    report = changed(name, tmp_path, *statements)
    chosen = Selection(tuple(f for f in Selection().families if f not in skip))
    options = RunOptions(every_thread=True)
    device = nsys2prv.TraceOutput(window="device")
    trace = nsys2prv.translate(report, tmp_path / "trace", selection=chosen, options=options, writing=device)
    found = nsys2prv.analyze(report, selection=chosen, options=options).run
    assert (found.duration, found.active) == (trace.duration_ns, trace.window_ns)


def test_the_active_time_of_a_part_is_that_of_what_the_run_has() -> None:
    """Device activity, else MPI calls, else all of it: as of a whole run."""
    calls = [(0, 0, 10, 20, "mpi", "MPI_Send"), (0, 0, 30, 60, "mpi", "MPI_Recv"), (0, 0, 0, 100, "os", "poll")]
    work = work_of([(0, 45, 47, "kernel")])
    runs = run_of(work, calls), run_of(work.clear(), calls), run_of(work.clear(), calls[2:])
    assert [restricted(run, 15, 50).active for run in runs] == [(45, 47), (15, 50), (15, 50)]
    assert restricted(runs[1], 22, 90).active == (30, 60)


def test_all_of_a_part_is_the_time_that_was_chosen() -> None:
    """Its work is not a share of the whole run's time."""
    part = restricted(run_of(work_of([(0, 0, 90, "kernel")]), ranks=1), 40, 60)
    found = analyze_run(part, Question(window="trace"))
    assert (found.window.start, found.window.end, found.efficiency.parallel) == (40, 60, 1)


def test_samples_at_times_that_cannot_be_are_left_out_and_told(tmp_path: Path) -> None:
    sound = nsys2prv.analyze(SAMPLES / "gpt-ddp/gpt-ddp.0.0.sqlite").run
    wrong = "UPDATE GPU_METRICS SET timestamp = 9100000000000000000 WHERE rowid % 997 = 7"
    found = nsys2prv.analyze(changed("gpt-ddp/gpt-ddp.0.0.sqlite", tmp_path, wrong)).run
    assert (found.duration, found.active) == (sound.duration, sound.active)
    assert [d for d in found.defects if d.text.startswith("gpu_metrics: ") and d.text.endswith(" without a time")]


def test_what_a_chosen_time_cuts_is_not_taken_for_whole() -> None:
    """Of 100 ns the time from 40 to 60: it cuts a copy of 1000 bytes, two collectives, and a kernel launched at 5."""
    work = work_of([(0, 0, 50, "nccl"), (0, 44, 48, "nccl"), (0, 55, 95, "nccl"), (0, 50, 100, "copy")])
    work = work.with_columns(
        bytes=pl.Series([400, 40, 400, 1000]),
        communicator=pl.lit("world").cast(TEXT),
        operation=pl.lit("AllReduce").cast(TEXT),
        launched=pl.Series([5, 42, 45, 46]),
    )
    run = run_of(work, ranks=1)._replace(communicator_sizes={"world": 2})
    found = analyze_run(restricted(run, 40, 60), Question(window="trace"))
    assert found.bandwidths.select("kernels", "bytes", "bus_p50_gb_s").rows() == [(1, 40, 10.0)]
    assert found.memory.filter(rank=0).select("total_ns", "bytes", "gb_s").rows() == [(10, 200, 20.0)]
    assert found.launches.filter(rank=0, name="nccl").select("count", "wait_p50_ns").rows() == [(2, 6.0)]

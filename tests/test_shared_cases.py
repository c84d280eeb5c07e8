"""The small inputs that once went wrong, each with the right result that their README names."""

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from runs import SHARED, Command

import nsys2prv

CASES = SHARED / "cases"

pytestmark = [pytest.mark.shared, pytest.mark.skipif(not CASES.is_dir(), reason="needs the shared cases")]


def translated(case: str, output: Path, **chosen: str) -> nsys2prv.Translation:
    selection = nsys2prv.Selection(**chosen)  # type: ignore[arg-type]
    return nsys2prv.translate(CASES / f"{case}.sqlite", output, selection=selection)


def trace_of(made: nsys2prv.Translation) -> nsys2prv.Trace:
    assert made.prv is not None
    return nsys2prv.read_prv(made.prv)


def test_gpu_metrics_rawtimestamp(output: Path) -> None:
    made = translated("gpu-metrics-rawtimestamp", output)
    assert (made.dropped, made.defects) == ({}, ())
    trace = trace_of(made)
    (number,) = (number for number, label in trace.types.items() if label == "SM Active")
    samples = trace.events.filter(pl.col("type") == number).sort("time").select("time", "value")
    with closing(sqlite3.connect(CASES / "gpu-metrics-rawtimestamp.sqlite")) as report:
        recorded = [time for (time,) in report.execute("SELECT rawTimestamp FROM GENERIC_EVENTS ORDER BY rawTimestamp")]
    # A call at this time is the first event. A value holds until the next one.
    times = pl.DataFrame({"time": [time - 212221855 for time in recorded]})
    held = times.join_asof(samples, on="time")["value"]
    assert (len(recorded), recorded[0], recorded[-1], held.null_count()) == (300, 330055879, 359956016, 0)
    assert round(held.mean(), 2) == 70.46  # type: ignore[arg-type, call-overload]


def test_processes_without_events_are_told_in_one_number(cli: Command) -> None:
    told = cli("inspect", CASES / "many-processes.sqlite").out
    assert "processes: python3:2873; 400 without events\n" in told
    assert max(map(len, told.splitlines())) < 300


def test_nvtx_long_text(output: Path, cli: Command) -> None:
    report = CASES / "nvtx-long-text.sqlite"
    for options in (("translate", "-o", output, "--nvtx", "other"), ("analyze", "--phase", "other")):
        told = cli(*options, report)
        assert (told.code, "xxx..." in told.err, len(told.err) < 500) == (2, True, True)


def test_nvtx_at_sign(output: Path) -> None:
    assert translated("nvtx-at-sign", output, nvtx="fwd@layer1").duration_ns == 800


def test_only_os_calls(output: Path) -> None:
    made = translated("only-os-calls", output)
    with closing(sqlite3.connect(CASES / "only-os-calls.sqlite")) as report:
        calls, threads = report.execute("SELECT count(*), count(DISTINCT globalTid) FROM OSRT_API").fetchone()
    assert (calls, made.rows["osrt"], len(trace_of(made).names["THREAD"])) == (1198, 1198, threads)
    calls_of = nsys2prv.analyze(CASES / "only-os-calls.sqlite").api
    assert calls_of.filter(pl.col("rank").is_null())["instances"].sum() == 1198


@pytest.mark.parametrize(
    ("case", "task"), [("process-named-twice", "gem_main:2873"), ("no-processes-table", "python3:2873")]
)
def test_names_of_tasks(case: str, task: str, output: Path, cli: Command) -> None:
    assert trace_of(translated(case, output)).names["TASK"] == (task,)
    assert f"processes: {task}\n" in cli("inspect", CASES / f"{case}.sqlite").out


def test_kernels_without_a_time_are_dropped_and_counted(output: Path) -> None:
    made = translated("zero-kernels", output)
    assert (made.rows["kernels"], made.dropped["kernels"]) == (110, {"without a time": 10})
    assert (made.duration_ns, made.window_ns) == (1335523, (310592, 968638))
    assert nsys2prv.analyze(CASES / "zero-kernels.sqlite").efficiency.parallel == pytest.approx(0.55, abs=0.005)


def test_failed_launches(output: Path, cli: Command) -> None:
    report = CASES / "failed-launches.sqlite"
    told = [defect.text for defect in translated("failed-launches", output).defects]
    assert told == [defect.text for defect in nsys2prv.analyze(report).run.defects]
    assert told == [
        "cuda_api: 20 calls of cudaGraphLaunch that returned 222, of process 2873",
        "cuda_api: 1 calls of cudaMemcpyAsync that returned 222, of process 2873",
    ]
    said = cli("inspect", report).out
    assert "no work of theirs ran: 21 with error 222" in said
    assert "the profiler could not collect" not in said

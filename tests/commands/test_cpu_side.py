"""Reports of the CPU side alone: their threads get the rows, and are analyzed."""

from pathlib import Path

import polars as pl
import pytest
from exports import MAIN, export, tid

import nsys2prv
from nsys2prv.cli.analysis_text import text_of

WORKER, PROFILER = tid(101), tid(102)
NAMES = ("nameId globalTid", [("app", MAIN), ("worker", WORKER), ("[NSys]", PROFILER)])
OS_CALLS = (
    "start end globalTid nameId",
    [(100, 200, MAIN, "poll"), (150, 400, WORKER, "read"), (160, 170, PROFILER, "write"), (300, 350, MAIN, "poll")],
)
SWITCHES = (
    "start cpu isSchedIn globalTid",
    [(100, 3, 1, MAIN), (150, 3, 0, MAIN), (200, 4, 1, WORKER), (260, 4, 0, WORKER), (300, 4, 1, WORKER)],
)
SAMPLES = ("id start globalTid", [(1, 100, MAIN), (2, 300, WORKER)])
STACKS = ("id symbol stackDepth", [(1, "main", 0), (2, "work", 0)])
ROWS = ("app 100", "worker 101")


def translated(reports: Path | list[Path], **selection: object) -> nsys2prv.Translation:
    first = reports if isinstance(reports, Path) else reports[0]
    chosen = nsys2prv.Selection(**selection)  # type: ignore[arg-type]
    options = nsys2prv.RunOptions(align="none")
    return nsys2prv.translate(reports, first.with_suffix(""), selection=chosen, options=options, force=True)


def rows_of(made: nsys2prv.Translation) -> tuple[str, ...]:
    assert made.prv is not None
    return nsys2prv.read_prv(made.prv).names["THREAD"]


def test_threads_with_os_calls_alone_get_rows_but_the_profilers_own(tmp_path: Path) -> None:
    made = translated(export(tmp_path / "r.sqlite", ThreadNames=NAMES, OSRT_API=OS_CALLS))
    assert rows_of(made) == ROWS
    assert (made.rows["osrt"], made.dropped["osrt"]) == (3, {"on threads without a row (--threads all draws them)": 1})


@pytest.mark.parametrize(
    ("tables", "rows"),
    [
        ({"SCHED_EVENTS": SWITCHES}, {"scheduling": 4}),
        ({"COMPOSITE_EVENTS": SAMPLES, "SAMPLING_CALLCHAINS": STACKS}, {"cpu_samples": 2}),
        (
            {"SCHED_EVENTS": SWITCHES, "COMPOSITE_EVENTS": SAMPLES, "SAMPLING_CALLCHAINS": STACKS},
            {"scheduling": 4, "cpu_samples": 2},
        ),
    ],
    ids=["scheduling", "samples", "both"],
)
def test_what_is_off_by_default_is_drawn_if_there_is_nothing_else(
    tmp_path: Path, tables: dict[str, tuple[str, list[tuple[object, ...]]]], rows: dict[str, int]
) -> None:
    report = export(tmp_path / "r.sqlite", ThreadNames=NAMES, **tables)
    made = translated(report)
    assert rows_of(made) == ROWS
    assert {family: count for family, count in made.rows.items() if count} == rows
    assert made.off == {}
    # The comments say what was chosen.
    assert made.prv is not None
    assert f"--also {','.join(rows)}" in made.prv.read_text()
    # Of a part of the time, too, which begins before the worker does anything.
    assert rows_of(translated(report, time=(0, 50))) == ROWS[:1]
    assert nsys2prv.analyze(report).window.spans.total() > 0


def test_beside_other_families_it_stays_off(tmp_path: Path) -> None:
    made = translated(export(tmp_path / "r.sqlite", ThreadNames=NAMES, OSRT_API=OS_CALLS, SCHED_EVENTS=SWITCHES))
    assert (made.rows.get("scheduling"), made.off) == (None, {"scheduling": 5})


def test_only_the_profilers_overhead_is_nothing_to_draw(tmp_path: Path) -> None:
    overhead = ("start end globalTid nameId", [(100, 200, MAIN, "flush")])
    with pytest.raises(nsys2prv.Nsys2prvError, match="nothing to draw"):
        translated(export(tmp_path / "r.sqlite", PROFILER_OVERHEAD=overhead))


def test_a_report_with_os_calls_alone_beside_one_with_calls_has_its_rows(tmp_path: Path) -> None:
    """In the other report the worker has none, as its main thread has one."""
    other = tid(200, 200)
    alone = export(
        tmp_path / "a.sqlite",
        PROCESSES=("globalPid pid name", [(tid(0, 200), 200, "other")]),
        OSRT_API=("start end globalTid nameId", [(120, 140, other, "poll")]),
    )
    cublas = ("start end globalTid nameId", [(100, 200, MAIN, "gemm")])
    beside = export(tmp_path / "b.sqlite", ThreadNames=NAMES, OSRT_API=OS_CALLS, CUBLAS_EVENTS=cublas)
    assert rows_of(translated([alone, beside])) == ("app 100", "thread 200")


def test_rows_of_a_chosen_time_are_those_of_the_whole_run(tmp_path: Path) -> None:
    """The main thread calls cuBLAS in the second half; the worker never does."""
    cublas = ("start end globalTid nameId", [(360, 400, MAIN, "gemm")])
    report = export(tmp_path / "r.sqlite", ThreadNames=NAMES, OSRT_API=OS_CALLS, CUBLAS_EVENTS=cublas)
    made = translated(report, time=(0, 110))
    assert (rows_of(made), made.rows["osrt"]) == (("app 100",), 1)
    assert rows_of(translated(report)) == ("app 100",)


def _of_all(found: nsys2prv.Analysis) -> pl.DataFrame:
    return found.api.filter(pl.col("rank").is_null()).select("name", "instances", "total_ns")


def test_the_analysis_is_of_the_host(tmp_path: Path) -> None:
    """A context without any CUDA activity in the report makes no idle device."""
    context = ("processId deviceId contextId", [(100, 0, 1)])
    report = export(tmp_path / "r.sqlite", ThreadNames=NAMES, OSRT_API=OS_CALLS, TARGET_INFO_CUDA_CONTEXT_INFO=context)
    found = nsys2prv.analyze(report)
    assert (found.efficiency.devices, found.gaps.height) == ((), 0)
    calls = {name: (count, total) for name, count, total in _of_all(found).rows()}
    assert calls == {"read": (1, 250), "poll": (2, 150)}
    assert "Device efficiency" not in text_of(found, held=False)

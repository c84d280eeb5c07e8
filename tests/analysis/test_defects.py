"""Data that reports lack or hold wrongly is told with its effect, and kept out of the figures."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from analysis_cases import SAMPLES, SHARED
from exports import MAIN, export

import nsys2prv
from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.question import Question
from nsys2prv.cli.analysis_text import text_of
from nsys2prv.cli.translation_text import summary_text
from nsys2prv.commands.inspect import inspect
from nsys2prv.intervals.reduction_options import Reduction

SAXPY = SAMPLES / "single/saxpy.sqlite"
CASES = SHARED.parent / "cases"
RUNTIME, KERNELS = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"
# The launching calls of the 20 kernels of saxpy.
LAUNCHES = f"correlationId IN (SELECT correlationId FROM {KERNELS})"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
COPYING = f"correlationId IN (SELECT correlationId FROM {COPIES})"


def changed(folder: Path, *statements: str) -> Path:
    """Return a copy of saxpy after some SQL."""
    copy = folder / "changed.sqlite"
    shutil.copyfile(SAXPY, copy)
    with closing(sqlite3.connect(copy)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return copy


def told(report: Path) -> list[str]:
    """Return the defects of a report without their effects; translate and analyze tell the same."""
    of_analysis = nsys2prv.analyze(report, question=Question(window="device")).run.defects
    of_translation = nsys2prv.translate(report, report.with_suffix(""), dry_run=True).defects
    assert of_analysis == of_translation
    assert all(defect.effect and defect.reports == (report.stem,) for defect in of_analysis)
    return [defect.text for defect in of_analysis]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([], []),
        (
            [f"UPDATE {RUNTIME} SET returnValue = 600 WHERE {LAUNCHES}"],  # CUDA_ERROR_NOT_READY: still running
            [],
        ),
        (
            [f"UPDATE {KERNELS} SET start = 0, end = 0 WHERE rowid <= 3"],
            ["kernels: 3 without a time"],
        ),
        (
            [f"DELETE FROM {RUNTIME} WHERE {LAUNCHES}"],
            ["device activities: 20 without their CUDA call in the report, of process 2605"],
        ),
        (
            [f"UPDATE {RUNTIME} SET start = start + 900000000, end = end + 900000000 WHERE {LAUNCHES}"],
            ["device activities: 20 that begin over 1000 us before their CUDA call, of process 2605"],
        ),
        (
            [f"DELETE FROM {KERNELS}"],
            ["process 2605 launched kernels or graphs by 20 calls, and none is recorded"],
        ),
        (
            [f"DELETE FROM {COPIES}"],
            ["process 2605 launched copies by 21 calls, and none is recorded"],
        ),
        (
            # CUPTI records no copy of 0 bytes: most of the calls were as brief as those are, one was interrupted.
            [
                f"UPDATE {RUNTIME} SET end = start + (CASE rowid % 12 WHEN 0 THEN 2000 ELSE 300 END) WHERE {COPYING}",
                f"DELETE FROM {COPIES}",
            ],
            [],
        ),
        (
            [f"UPDATE {RUNTIME} SET returnValue = 222 WHERE {LAUNCHES}", f"DELETE FROM {KERNELS}"],
            ["cuda_api: 20 calls of cudaLaunchKernel that returned 222, of process 2605"],
        ),
        (
            [
                f"UPDATE {RUNTIME} SET returnValue = 719 WHERE {LAUNCHES}",
                "CREATE TABLE ENUM_CUDA_RESULT (id INTEGER, name TEXT, label TEXT)",
                "INSERT INTO ENUM_CUDA_RESULT VALUES (719, 'CUDA_ERROR_LAUNCH_FAILED', '')",
            ],
            ["cuda_api: 20 calls of cudaLaunchKernel that returned 719 (CUDA_ERROR_LAUNCH_FAILED), of process 2605"],
        ),
        (
            [
                "CREATE TABLE NEW_EVENTS (start INTEGER, globalTid INTEGER)",
                "INSERT INTO NEW_EVENTS VALUES (1, 1), (2, 1)",
                "CREATE TABLE NEW_NAMES (id INTEGER, name TEXT)",
                "INSERT INTO NEW_NAMES VALUES (1, 'a')",
                "CREATE TABLE OTHER_EVENTS (startNs INTEGER, endNs INTEGER)",
                "INSERT INTO OTHER_EVENTS VALUES (1, 2)",
                "CREATE TABLE EMPTY_EVENTS (start INTEGER, end INTEGER)",
                f"CREATE VIEW OLD_KERNELS AS SELECT * FROM {KERNELS}",
            ],
            [
                "NEW_EVENTS is not known, and looks like 2 events",
                "view OLD_KERNELS is not known, and looks like 20 events",
                "OTHER_EVENTS is not known, and looks like 1 events",
            ],
        ),
    ],
    ids=[
        "none",
        "not ready",
        "no time",
        "no call",
        "early",
        "no work",
        "no copies",
        "no bytes",
        "failed",
        "named",
        "unknown",
    ],
)
def test_each_defect_is_told(tmp_path: Path, statements: Sequence[str], expected: list[str]) -> None:
    assert told(changed(tmp_path, *statements)) == expected


@pytest.mark.parametrize(
    ("name", "error", "is_defect"),
    [
        ("cudaFuncSetAttribute", 8, False),
        ("cudaDeviceSynchronize_v3020", 719, True),
        ("cudaMalloc_v3020", 2, True),
        ("cuMemAllocAsync", 2, True),
        ("cudaGraphExecUpdate_v10020", 910, False),
    ],
)
def test_a_failed_call_is_a_defect_if_work_or_memory_lacks(
    tmp_path: Path, name: str, error: int, is_defect: bool
) -> None:
    """Errors of other calls are a detail, unless they say that a kernel failed."""
    report = changed(
        tmp_path,
        f"INSERT INTO StringIds (id, value) VALUES (99999, '{name}')",
        f"UPDATE {RUNTIME} SET nameId = 99999, returnValue = {error} WHERE rowid = (SELECT max(rowid) FROM {RUNTIME})",
    )
    plain = name.partition("_v")[0]
    text = f"calls of {plain} that returned {error}"
    found = nsys2prv.analyze(report)
    assert any(text in one for one in told(report)) == is_defect
    assert [one.severity for one in found.findings if one.id == "failed-calls"] == ["medium"] * is_defect
    assert any(text in one for one in found.run.details) != is_defect
    assert not any(text in one for one in found.run.remarks)


@pytest.mark.parametrize("report", sorted(SAMPLES.rglob("*.sqlite")), ids=lambda path: path.stem)
def test_nothing_is_told_of_sound_reports(report: Path, tmp_path: Path) -> None:
    assert nsys2prv.translate(report, tmp_path / "trace", dry_run=True).defects == ()


@pytest.mark.parametrize(
    ("table", "column", "expected"),
    [
        ("KERNEL", "start", ["kernels: 20 CUPTI_ACTIVITY_KIND_KERNEL lacks start"]),
        (
            "KERNEL",
            "correlationId",
            ["kernels: 20 rows of CUPTI_ACTIVITY_KIND_KERNEL, which lacks correlationId"],
        ),
        ("MEMCPY", "bytes", ["memory: 21 rows of CUPTI_ACTIVITY_KIND_MEMCPY, which lacks bytes"]),
        ("MEMCPY", "srcKind", []),
        ("RUNTIME", "correlationId", ["cuda_api: 89 rows of CUPTI_ACTIVITY_KIND_RUNTIME, which lacks correlationId"]),
    ],
)
def test_a_renamed_column_is_told(table: str, column: str, expected: list[str], tmp_path: Path) -> None:
    """Of those that all versions have; one without them has fewer details."""
    report = changed(tmp_path, f"ALTER TABLE CUPTI_ACTIVITY_KIND_{table} RENAME COLUMN {column} TO other")
    assert [text for text in told(report) if "lacks" in text] == expected


def test_a_renamed_column_of_host_tables_is_told(tmp_path: Path) -> None:
    rows = [(0, 10, 59, MAIN, "a"), (20, 30, 59, MAIN, "b")]
    report = export(tmp_path / "r.sqlite", NVTX_EVENTS=("start end eventType globalTid text", rows))
    with closing(sqlite3.connect(report)) as connection:
        connection.execute("ALTER TABLE NVTX_EVENTS RENAME COLUMN text TO label")
    assert told(report) == ["nvtx: 2 rows of NVTX_EVENTS, which lacks text"]


@pytest.mark.parametrize("early", [0, 1, 5, 20])
def test_kernels_before_their_call_are_in_no_launch_time(early: int, tmp_path: Path) -> None:
    """Some of 20 calls are moved behind their kernels; the others' waits stay."""
    some = f"correlationId IN (SELECT correlationId FROM {KERNELS} ORDER BY start LIMIT {early})"
    report = changed(tmp_path, f"UPDATE {RUNTIME} SET start = start + 900000000, end = end + 900000000 WHERE {some}")
    found = nsys2prv.analyze(report, question=Question(window="trace")).launches
    every = found.filter(pl.col("rank").is_null() & pl.col("name").is_null())
    assert every["count"].sum() == 20 - early
    assert (every["wait_p50_ns"] > 0).all()


@pytest.mark.parametrize(
    ("statements", "warnings"),
    [
        ([], []),
        (
            [f"UPDATE {RUNTIME} SET returnValue = 222 WHERE {LAUNCHES}"],
            ["CUDA calls that failed, so that no work of theirs ran: 20 with error 222"],
        ),
        (
            [f"DELETE FROM CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET")],
            ["CUDA calls without any device activity: the profiler could not collect it"],
        ),
    ],
    ids=["sound", "failed", "not collected"],
)
def test_inspect_tells_failed_calls_from_work_that_was_not_collected(
    statements: Sequence[str], warnings: list[str], tmp_path: Path
) -> None:
    said = inspect([changed(tmp_path, *statements)])[0][0].warnings
    assert [warning for warning in said if warning.startswith("CUDA calls")] == warnings


def test_the_worst_comes_first_and_on_the_first_screen(tmp_path: Path) -> None:
    report = changed(
        tmp_path,
        f"UPDATE {KERNELS} SET start = 0, end = 0 WHERE rowid <= 3",
        f"UPDATE {RUNTIME} SET returnValue = 1 WHERE rowid = (SELECT min(rowid) FROM {RUNTIME} WHERE {LAUNCHES})",
        "CREATE TABLE NEW_EVENTS (timestamp INTEGER)",
        "INSERT INTO NEW_EVENTS VALUES (1)",
    )
    for text in (
        text_of(nsys2prv.analyze(report), held=False),
        summary_text(nsys2prv.translate(report, tmp_path / "t")),
    ):
        lines = text.splitlines()
        first = lines.index("Wrong or missing in the reports, the worst first:")
        assert first < 5
        assert [line.split()[0] for line in lines[first + 1 : first + 4]] == ["NEW_EVENTS", "cuda_api:", "kernels:"]
        assert "every figure" in lines[first + 3]


def test_what_nsys_always_says_is_a_detail(tmp_path: Path) -> None:
    always = "Not all CUDA events might have been collected."
    report = changed(
        tmp_path,
        "DELETE FROM DIAGNOSTIC_EVENT",
        f"INSERT INTO DIAGNOSTIC_EVENT (timestamp, timestampType, source, severity, text, globalPid) "
        f"VALUES (1, 1, 1, 2, '{always}', 1), (2, 1, 1, 2, 'The buffer was full.', 1)",
    )
    found = nsys2prv.analyze(report)
    assert list(found.run.remarks) == ["The report says: The buffer was full."]
    assert found.run.details[-1] == f"The report says: {always}"
    assert (always in text_of(found, held=False), always in text_of(found, held=False, details=True)) == (False, True)
    made = nsys2prv.translate(report, tmp_path / "trace")
    assert (always in summary_text(made), always in summary_text(made, details=True)) == (False, True)


DUMP = """Error when processing events: Source ID=
Type=ErrorInformation (18)
   ErrorText (100)=/build/StringStorage.cpp(119): Throw in function GetKey
std::exception::what: LogicException
[QuadDCommon::tag_message*] = Cannot find string for an exterior index
"""


def test_events_that_nsys_failed_to_process_are_a_defect_on_one_line(tmp_path: Path) -> None:
    report = changed(
        tmp_path,
        f"INSERT INTO DIAGNOSTIC_EVENT (timestamp, timestampType, source, severity, text, globalPid) "
        f"VALUES (1, 2, 3, 2, '{DUMP}', 1), (2, 2, 3, 2, '{DUMP}', 1), (3, 2, 3, 2, 'A warning\nof two lines.', 1)",
    )
    assert told(report) == ["nsys failed to process recorded events (Cannot find string for an exterior index)"]
    found = nsys2prv.analyze(report)
    assert "The report says: A warning of two lines." in found.run.remarks
    made = nsys2prv.translate(report, tmp_path / "trace")
    for text in (text_of(found, held=False), summary_text(made)):
        assert "Error when processing events" not in text
        assert "Cannot find string for an exterior index" in text
        assert "A warning of two lines." in text


def test_recorded_data_is_not_called_missing(tmp_path: Path) -> None:
    """The kernels have no time, the OS calls are of a thread without a row."""
    report = changed(
        tmp_path,
        *(f"UPDATE CUPTI_ACTIVITY_KIND_{kind} SET start = 0, end = 0" for kind in ("KERNEL", "MEMCPY", "MEMSET")),
    )
    assert not [what for what in nsys2prv.analyze(report).missing if what.startswith("device activity")]


def test_os_calls_of_threads_without_a_row_count(tmp_path: Path) -> None:
    """By name they are those of the table, of all threads but the profiler's own."""
    report = SAMPLES / "gpt-ddp/gpt-ddp.0.0.sqlite"
    found = nsys2prv.analyze(report, question=Question(window="device")).api.filter(pl.col("rank").is_null())
    query = """SELECT s.value, count(*), sum(o.end - o.start) FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId
        WHERE o.globalTid NOT IN (SELECT t.globalTid FROM ThreadNames t JOIN StringIds n ON n.id = t.nameId
        WHERE n.value LIKE '[NSys%' OR n.value LIKE 'NSys%' OR n.value LIKE 'CUPTI worker%')
        GROUP BY 1 ORDER BY 3 DESC LIMIT 3"""
    with closing(sqlite3.connect(report)) as connection:
        expected = connection.execute(query).fetchall()
    calls = found.filter(pl.col("kind") == "os").select("name", "instances", "total_ns").head(3).rows()
    assert calls == expected
    assert calls[0][0] == "poll"


def case(name: str) -> Path:
    report = CASES / f"{name}.sqlite"
    if not report.exists():
        pytest.skip(f"needs the shared case {name}")
    return report


def analysis_of(name: str) -> Analysis:
    return nsys2prv.analyze(case(name), question=Question(window="device"))


def test_kernels_without_a_time_stretch_no_window(tmp_path: Path) -> None:
    found = analysis_of("zero-kernels")
    made = nsys2prv.translate(case("zero-kernels"), tmp_path / "trace")
    assert (found.window.start, found.window.end) == made.window_ns == (310592, 968638)
    assert (made.duration_ns, made.rows["kernels"]) == (1335523, 110)
    assert found.efficiency.parallel == pytest.approx(0.55, abs=0.005)
    assert [(defect.text, defect.share) for defect in found.run.defects] == [("kernels: 10 without a time", 10 / 120)]


def test_where_all_calls_fail_nothing_was_to_be_recorded(tmp_path: Path) -> None:
    fails = f"UPDATE {RUNTIME} SET returnValue = 222 WHERE {LAUNCHES}"
    emptied = [f"DELETE FROM CUPTI_ACTIVITY_KIND_{table}" for table in ("KERNEL", "MEMCPY", "MEMSET")]
    for statements, first in (([fails, *emptied], "failed-calls"), (emptied, "defective-reports")):
        found = nsys2prv.analyze(changed(tmp_path, *statements))
        assert found.findings[0].id == first
        assert ("again" in found.findings[0].advice) == (first == "defective-reports")
        assert any("device activity" in what for what in found.missing) == (first == "defective-reports")


def test_failed_launches_are_not_the_profilers_fault() -> None:
    found = analysis_of("failed-launches")
    assert [defect.text for defect in found.run.defects] == [
        "cuda_api: 20 calls of cudaGraphLaunch that returned 222, of process 2873",
        "cuda_api: 1 calls of cudaMemcpyAsync that returned 222, of process 2873",
    ]
    assert found.launches.is_empty()


@pytest.mark.parametrize(
    ("ranges", "span", "least", "lacks"),
    [
        # A call of cuBLAS that is still open at the end is altered, and drawn all the same.
        ([(10, 20, "cublasGemmEx", 1), (30, None, "cublasGemmEx", 1)], None, 0, True),
        ([(10, 20, "cublasGemmEx", 1), (30, 40, "step", 0)], None, 0, False),
        # What lies outside the chosen time, or is too short, may be a range of the program or not.
        ([(10, 20, "cublasGemmEx", 1), (130, 140, "step", 0)], (None, 100), 0, False),
        ([(10, 20, "cublasGemmEx", 1), (130, 131, "step", 0)], None, 5, False),
        ([], (None, 100), 5, True),
    ],
    ids=["open", "has", "outside", "short", "none"],
)
def test_a_report_without_ranges_of_the_program_is_told(
    ranges: list[tuple[int, int | None, str, int]],
    span: tuple[int | None, int | None] | None,
    least: int,
    lacks: bool,
    tmp_path: Path,
) -> None:
    """The other report of the program has some. Ranges of libraries do not count."""
    columns = "start end eventType domainId globalTid text"
    reports = [
        export(
            tmp_path / f"{name}.sqlite",
            NVTX_EVENTS=(columns, [(0, None, 75, 1, MAIN, "cuBLAS"), *((s, e, 59, d, MAIN, t) for s, e, t, d in own)]),
            OSRT_API=("start end globalTid nameId", [(0, 200, MAIN, "read")]),
        )
        for name, own in (("a", [(0, 50, "step", 0)]), ("b", ranges))
    ]
    chosen = nsys2prv.Selection(("nvtx", "osrt"), time=span, reduction=Reduction(min_duration=least))
    options = nsys2prv.RunOptions(one_run=True, every_thread=True)
    found = nsys2prv.translate(reports, tmp_path / "t", selection=chosen, options=options, dry_run=True).defects
    expected = [("no NVTX ranges in this report, but in the other of its program", ("b",))] if lacks else []
    assert [(defect.text, defect.reports) for defect in found] == expected

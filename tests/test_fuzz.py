"""A short run of tests/fuzz: no defect in cases that differ from those of `python tests/fuzz` by their numbers."""

from __future__ import annotations

import os
import random
import re
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fuzz.case import ALL, OPTIONS, READING, REFUSED, RIGHT, Verdict, beside_ncu, run_case
from fuzz.inputs import MADE, SOURCES, small
from fuzz.judge import Told, wrong
from fuzz.ncu_files import FOLDER, REPORT, wrong_of_ncu, wrong_throughputs
from fuzz.nvprof_judge import KINDS, wrong_of_nvprof
from fuzz.run import verdicts
from nvprof_files import MORE, WORK, nvprof_file

import nsys2prv

SEED, RUNS = 7_000_000, 80


def test_broken_reports_give_a_right_trace_or_a_line_that_says_why_not() -> None:
    found = [v for v in verdicts(range(SEED, SEED + RUNS), workers=2) if isinstance(v, Verdict)]
    assert [v for v in found if v.what not in (RIGHT, REFUSED)] == []
    counted = Counter(v.what for v in found)
    assert counted.total() == RUNS
    assert counted[RIGHT] > RUNS // 2
    assert counted[REFUSED] > 0


def test_a_case_is_made_again_by_its_number(tmp_path: Path) -> None:
    made = []
    for place in ("one", "other"):
        folder = tmp_path / place
        folder.mkdir()
        before = os.environ.copy()
        verdict = run_case(SEED + 1, folder)
        assert os.environ == before
        made.append((verdict.what, verdict.done, {p.name: p.read_bytes() for p in (folder / "in").iterdir()}))
    assert made[0] == made[1]


# What is done to a report after it was translated, and what the judge says of the trace.
CHANGES = (
    (1, 'UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET "end" = "end" + 1 WHERE rowid = 3', "calls"),
    (1, "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE rowid = 3", "calls"),
    (1, "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = globalTid + 1 WHERE rowid = 3", "calls"),
    (1, "UPDATE StringIds SET value = 'cudaOther' WHERE value LIKE 'cudaLaunchKernel%'", "calls"),
    (1, "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = 0", "launches"),
    (1, "UPDATE StringIds SET value = value || 'x' WHERE id IN (SELECT shortName FROM {}KERNEL)", "kernels"),
    (1, "UPDATE {}KERNEL SET streamId = 99 WHERE rowid = 2", "kernels"),
    (1, "UPDATE {}MEMCPY SET copyKind = 10 WHERE rowid = 1", "memory"),
    (1, "UPDATE {}MEMCPY SET bytes = bytes + 1 WHERE rowid = 1", "bytes"),
    (1, 'UPDATE MPI_P2P_EVENTS SET "end" = "end" + 1 WHERE rowid = 3', "MPI"),
    (1, "UPDATE StringIds SET value = 'MPI_Other' WHERE value = 'MPI_Allreduce'", "MPI"),
    (0, "UPDATE NVTX_EVENTS SET text = 'other' WHERE text = 'forward'", "ranges"),
    (0, "UPDATE NVTX_EVENTS SET domainId = 2 WHERE text = 'forward'", "ranges"),
    (0, "UPDATE NVTX_EVENTS SET jsonText = replace(jsonText, '33554432', '33554433')", "payloads"),
    (0, "UPDATE OSRT_API SET start = start - 1 WHERE rowid = 5", "OS calls"),
    (0, "UPDATE GPU_METRICS SET value = value + 1 WHERE rowid = 2", "metrics"),
    (0, "UPDATE GPU_METRICS SET timestamp = timestamp + 1 WHERE rowid = 2", "metrics"),
    (4, "UPDATE OPENMP_EVENT_KIND_TASK SET nameId = -5", "OpenMP"),
    (-1, "UPDATE NVTX_EVENTS SET start = 104 WHERE start = 105", "operations"),
    (-1, "UPDATE NVTX_EVENTS SET text = 'Gather' WHERE start = 2000", "operations"),
    (-1, "UPDATE NVTX_EVENTS SET jsonText = replace(jsonText, 'r\": 4', 'r\": 5') WHERE start = 310", "operations"),
    (-1, "UPDATE NVTX_EVENTS SET jsonText = replace(jsonText, 'operationId', 'x') WHERE start = 2000", "ranges"),
    (-1, "UPDATE NVTX_EVENTS SET text = 'AllGather' WHERE start = 50", "ranges"),
)


def translated(report: Path, selection: nsys2prv.Selection, options: nsys2prv.RunOptions) -> Path:
    """The trace, in a folder beside the report."""
    trace, execution = report.parent / "trace", nsys2prv.Execution(jobs=1)
    result = nsys2prv.translate(report, trace, selection=selection, options=options, execution=execution)
    assert result.prv is not None
    return result.prv


@pytest.mark.parametrize("place", sorted({place for place, _, _ in CHANGES}))
def test_the_judge_sees_a_trace_that_differs_from_its_report(place: int, tmp_path: Path) -> None:
    """What would pass a judge that looks at nothing."""
    report = tmp_path / "r.sqlite"
    report.write_bytes(small(SOURCES[place]) if place >= 0 else MADE[place]())
    prv = translated(report, nsys2prv.Selection(ALL), nsys2prv.RunOptions(align="utc", every_thread=True))
    nothing = Told({}, (), {})
    with closing(sqlite3.connect(report, isolation_level=None)) as database:
        assert wrong(database, prv, ALL, nothing) == []
        for change, said in ((c, s) for p, c, s in CHANGES if p == place):
            database.execute("BEGIN")
            assert database.execute(change.format("CUPTI_ACTIVITY_KIND_")).rowcount > 0
            assert {text.split(":")[0] for text in wrong(database, prv, ALL, nothing)} >= {said}, change
            database.execute("ROLLBACK")


def test_the_judge_takes_numbers_of_labels_only_for_texts_that_differ(tmp_path: Path) -> None:
    """`mlp` with a control character at its end is one label with `mlp`, and gets a number."""
    report, one = tmp_path / "r.sqlite", "WHERE rowid = (SELECT min(rowid) FROM NVTX_EVENTS WHERE text LIKE 'mlp%')"
    report.write_bytes(small(SOURCES[0]))
    with closing(sqlite3.connect(report, isolation_level=None)) as database:
        database.execute(f"UPDATE NVTX_EVENTS SET text = text || char(1) {one}")
        prv = translated(report, nsys2prv.Selection(("nvtx", "nccl")), OPTIONS)
        assert "mlp (2)" in prv.with_suffix(".pcf").read_text()
        assert wrong(database, prv, ("nvtx", "nccl"), Told({}, (), {})) == []
        database.execute(f"UPDATE NVTX_EVENTS SET text = 'mlp' {one}")
        said = wrong(database, prv, ("nvtx", "nccl"), Told({}, (), {}))
        assert [text.split(":")[0] for text in said] == ["ranges"]


def test_the_judge_takes_what_is_told_for_the_tables_it_is_told_of(tmp_path: Path) -> None:
    report = tmp_path / "r.sqlite"
    report.write_bytes(small(SOURCES[1]))
    prv = translated(report, nsys2prv.Selection(ALL), nsys2prv.RunOptions(align="utc", every_thread=True))
    with closing(sqlite3.connect(report)) as database:
        database.execute("UPDATE MPI_P2P_EVENTS SET start = 'then' WHERE rowid = 1")
        for told, is_wrong in (({}, True), ({"cuda_api": {"without a time": 1}}, True), ({"mpi": {"": 1}}, False)):
            assert bool(wrong(database, prv, ALL, Told(told, (), READING))) == is_wrong


def test_the_judge_of_nvprof_sees_a_trace_that_differs_from_its_file(tmp_path: Path) -> None:
    path = nvprof_file(tmp_path / "f.nvprof", **WORK, **MORE)
    result = nsys2prv.translate(
        path, tmp_path / "t", selection=nsys2prv.Selection(ALL), execution=nsys2prv.Execution(jobs=1)
    )
    assert result.prv is not None
    changes = {
        "DELETE FROM {}CONCURRENT_KERNEL WHERE rowid = 2": ["kernels"],
        'UPDATE {}CONCURRENT_KERNEL SET start = start + 1, "end" = "end" + 1 WHERE rowid = 1': ["kernels"],
        'UPDATE {}MEMSET SET "end" = "end" + 1': ["memory"],
        "UPDATE {}UNIFIED_MEMORY_COUNTER SET counterKind = 6 WHERE counterKind = 8": ["memory"],
        "DELETE FROM {}DRIVER": ["calls"],
    }
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        assert wrong_of_nvprof(database, result.prv, ALL, {}) == []
        for change, said in changes.items():
            database.execute("BEGIN")
            assert database.execute(change.format("CUPTI_ACTIVITY_KIND_")).rowcount > 0
            assert [text.split(":")[0] for text in wrong_of_nvprof(database, result.prv, ALL, {})] == said, change
            database.execute("ROLLBACK")
        everything = {family: {"told": 9} for families, _, _ in KINDS.values() for family in families}
        database.execute("DELETE FROM CUPTI_ACTIVITY_KIND_DRIVER")
        assert wrong_of_nvprof(database, result.prv, ALL, everything) == []


def test_broken_files_of_nsight_compute_give_a_right_trace_or_a_line(tmp_path: Path) -> None:
    found = Counter[str]()
    for number in range(SEED, SEED + 25):
        folder = tmp_path / str(number)
        for name in ("in", "out"):
            (folder / name).mkdir(parents=True)
        verdict = beside_ncu(number, random.Random(number), folder)
        assert verdict.what in (RIGHT, REFUSED), verdict
        found[verdict.what] += 1
    assert min(found[RIGHT], found[REFUSED]) > 3


def test_the_judge_of_nsight_compute_sees_a_trace_that_differs_from_its_page(tmp_path: Path) -> None:
    page = FOLDER / "steps.csv"
    options = replace(OPTIONS, ncu=(nsys2prv.ProfileFile(page),))
    result = nsys2prv.translate(REPORT, tmp_path / "t", options=options, execution=nsys2prv.Execution(jobs=1))
    assert result.prv is not None
    rows, whole = result.rows["ncu"], result.prv.read_text()
    assert wrong_of_ncu(result.prv, rows) == wrong_throughputs(result.prv, page.read_bytes(), ": fewer lines") == []
    assert wrong_throughputs(result.prv, page.read_bytes().replace(b".", b".7"), ": fewer lines") != []
    begin = re.search(r"^2:.*:70000130:1.*$", whole, re.MULTILINE)
    assert begin is not None
    for change, said in (
        (begin[0].replace(":70000130:1", ":70000130:9"), "of another kind"),
        ("# nothing", "drawn"),
        (begin[0].replace(":70000130:1", ""), "say not whose"),
    ):
        result.prv.write_text(whole.replace(begin[0], change))
        assert any(said in text for text in wrong_of_ncu(result.prv, rows)), change

"""The size of a run, and its iterations, in words."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from analysis_cases import SAMPLES

import nsys2prv
from nsys2prv.analysis.question import Question
from nsys2prv.analysis.sentences import counted, run_size

RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
# Processes and their main threads are this far apart.
NEXT_PROCESS = (1 << 24) + 1


def with_helper(report: Path, folder: Path) -> Path:
    """Return a copy of a report in which another process asks CUDA three things, and gives the device no work."""
    copy = folder / report.name
    shutil.copyfile(report, copy)
    asked = f"SELECT rowid FROM {RUNTIME} ORDER BY start LIMIT 3"
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute(f"CREATE TEMP TABLE asked AS SELECT * FROM {RUNTIME} WHERE rowid IN ({asked})")
        connection.execute(f"UPDATE asked SET globalTid = globalTid + {NEXT_PROCESS}, correlationId = 1000000 + rowid")
        connection.execute(f"INSERT INTO {RUNTIME} SELECT * FROM asked")
        connection.commit()
    return copy


@pytest.mark.parametrize(
    ("reports", "size"),
    [
        (["single/saxpy.sqlite"], "1 rank and 1 helper process, 1 GPU, 1 host"),
        (
            ["gpt-ddp/gpt-ddp.0.0.sqlite", "gpt-ddp/gpt-ddp.0.1.sqlite"],
            "2 ranks and 2 helper processes, 2 GPUs, 1 host",
        ),
    ],
    ids=["rank not known", "rank known"],
)
def test_a_process_without_work_of_its_own_is_no_rank(reports: list[str], size: str, tmp_path: Path) -> None:
    """As the processes in which torch.compile compiles."""
    copies = [with_helper(SAMPLES / report, tmp_path) for report in reports]
    found = nsys2prv.analyze(copies, question=Question(window="device"), execution=nsys2prv.Execution(jobs=1))
    assert run_size(found) == size
    assert len(found.run.tasks) == 2 * len(reports)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([4], "iteration 4"),
        ([0, 1], "iterations 0 to 1"),
        ([1, 2, 3, 7, 9, 10, 11, 12], "iterations 1 to 3, 7, 9 to 12"),
        ([*range(0, 20, 2), 21, 22], "iterations 0, 2, 4, 6, 8, 10 and 6 more"),
    ],
)
def test_iterations_are_named_by_their_runs(numbers: list[int], words: str) -> None:
    assert counted([(number, 0) for number in numbers]) == words
    repeated = counted([(number, repeat) for number in numbers for repeat in (0, 1)])
    assert repeated == f"{words} of repeats 0 to 1"


def test_helper_processes_do_not_keep_runs_from_being_compared(tmp_path: Path) -> None:
    report = SAMPLES / "single/saxpy.sqlite"
    beside = with_helper(report, tmp_path)
    found = nsys2prv.compare(report, beside, question=Question(window="device"), execution=nsys2prv.Execution(jobs=1))
    assert (found.a.ranks, found.b.ranks) == (1, 1)

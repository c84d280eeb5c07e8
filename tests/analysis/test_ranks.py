"""Tasks whose ranks do not tell them apart are told apart all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from exports import export, tid

import nsys2prv
from nsys2prv.errors import UsageError


def processes(folder: Path, ranks: list[int | None]) -> list[Path]:
    """A report for each process, named without a number; the n-th has pid 100 + n and one kernel of n + 1 us."""
    made = []
    for n, rank in enumerate(ranks):
        process, main = tid(0, 100 + n), tid(100 + n, 100 + n)
        kernel = (0, 1000 * (n + 1), 0, 1, 7, 1, process, "work")
        made.append(
            export(
                folder / f"{'abcdefgh'[n]}.sqlite",
                PROCESSES=("globalPid pid name", [(process, 100 + n, "app")]),
                MPI_RANKS=("globalTid rank", [] if rank is None else [(main, rank)]),
                CUPTI_ACTIVITY_KIND_KERNEL=(
                    "start end deviceId contextId streamId correlationId globalPid shortName",
                    [kernel],
                ),
            )
        )
    return made


@pytest.mark.parametrize(
    ("ranks", "pids", "said"),
    [
        ([0, 1, None, None], {0: 100, 1: 101, 2: 102, 3: 103}, "rank 2 is app:102, rank 3 is app:103"),
        ([1, 2, None, 3], {1: 100, 2: 101, 3: 103, 4: 102}, "rank 4 is app:102"),
        ([0, 0, 1, 1], {0: 100, 2: 101, 1: 102, 3: 103}, "rank 2 is rank 0 app:101, rank 3 is rank 1 app:103"),
        ([None, None], {0: 100, 1: 101}, None),
    ],
)
def test_no_two_tasks_have_one_rank(
    ranks: list[int | None], pids: dict[int, int], said: str | None, tmp_path: Path
) -> None:
    found = nsys2prv.analyze(processes(tmp_path, ranks), question=nsys2prv.Question(window="device"))
    sums = found.kernels.drop_nulls("rank").select("rank", "instances", "total_ns").sort("rank").rows()
    assert sums == [(rank, 1, 1000 * (pid - 99)) for rank, pid in sorted(pids.items())]
    assert {t.rank: int(t.name.rpartition(":")[2]) for t in found.run.tasks} == pids
    remarks = [r for r in found.run.remarks if r.startswith("tasks without a rank of their own")]
    assert [r.partition(": ")[2] for r in remarks] == ([] if said is None else [said])


@pytest.mark.parametrize(
    ("ranks", "chosen", "pids"),
    [
        ([None, None, None], {1}, {1: 101}),
        ([None, None, None], {0, 2}, {0: 100, 2: 102}),
        ([1, 2, None, 3], {2, 4}, {2: 101, 4: 102}),
        ([0, 0, 1], {2}, {2: 101}),
        ([0, 0, 1], {0}, {0: 100, 2: 101}),
    ],
)
def test_tasks_are_chosen_by_the_numbers_that_the_analysis_gives_them(
    ranks: list[int | None], chosen: set[int], pids: dict[int, int], tmp_path: Path
) -> None:
    reports = processes(tmp_path, ranks)
    options = nsys2prv.RunOptions(ranks=frozenset(chosen))
    found = nsys2prv.analyze(reports, options=options, question=nsys2prv.Question(window="device"))
    assert {t.rank: int(t.name.rpartition(":")[2]) for t in found.run.tasks} == pids
    every = nsys2prv.analyze(reports, question=nsys2prv.Question(window="device"))
    assert set(found.run.unchosen) == {t.rank for t in every.run.tasks} - pids.keys()
    assert not any("--ranks" in remark for remark in found.run.remarks)


def test_a_choice_of_no_task_names_the_numbers_that_there_are(tmp_path: Path) -> None:
    options = nsys2prv.RunOptions(ranks=frozenset({7}))
    with pytest.raises(UsageError, match="the reports' ranks are: 0, 1"):
        nsys2prv.analyze(processes(tmp_path, [None, None]), options=options)


def test_a_helper_without_device_work_is_not_chosen_by_a_number(tmp_path: Path) -> None:
    """As a loader's or a compiler's process beside the ranks: only they have numbers to choose by."""
    thread = tid(9, 9)
    helper = export(
        tmp_path / "h.sqlite",
        PROCESSES=("globalPid pid name", [(thread, 9, "helper")]),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start end eventClass globalTid correlationId nameId returnValue",
            [(0, 500, 0, thread, 1, "cudaFree", 0)],
        ),
    )
    reports = [*processes(tmp_path, [0, 1]), helper]
    every = nsys2prv.analyze(reports, question=nsys2prv.Question(window="device"))
    assert [(task.rank, task.is_rank) for task in every.run.tasks] == [(0, True), (1, True), (2, False)]
    with pytest.raises(UsageError, match="the reports' ranks are: 0, 1"):
        nsys2prv.analyze(reports, options=nsys2prv.RunOptions(ranks=frozenset({2})))

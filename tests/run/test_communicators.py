"""Who is on a communicator, with which rank, by what all reports together say of it."""

from __future__ import annotations

import polars as pl
import pytest
from synthetic import summary

from nsys2prv.model.interning import MEMBER, UNKNOWN_GPU
from nsys2prv.run.matching.communicators import SOLE_MEMBER, UNKNOWN_NUMBER, Communicators, find_communicators
from nsys2prv.run.tasks import RecordedProcess, Task

# (task, communicator, rank, ranks, highest rank that its operations name) of each report.
Said = tuple[int, str, int | None, int | None, int | None]


def found(*said: Said, global_ranks: tuple[int | None, ...], reports: tuple[int, ...] | None = None) -> Communicators:
    """Of reports (as a rule one a line) and tasks; a process of no task has the number UNKNOWN_NUMBER."""
    of_line = reports or tuple(range(len(said)))
    summaries = []
    for r in sorted(set(of_line)):
        own = [line for line, report in zip(said, of_line, strict=True) if report == r]
        rows = [(n, t, None, *of, None, None, None) for n, (t, *of) in enumerate(own)]
        members = pl.DataFrame(rows, schema=MEMBER, orient="row")
        summaries.append(summary(str(r), "node")._replace(members=members))
    tasks = [
        Task(0, t, "app", rank, tuple(RecordedProcess(r, t) for r in range(len(summaries))))
        for t, rank in enumerate(global_ranks)
    ]
    return find_communicators(summaries, tasks)


def ranks_on(communicators: Communicators) -> list[int]:
    return [rank for of_report in communicators.rank for rank in of_report.tolist()]


def test_what_reports_say_counts() -> None:
    made = found((0, "b", 1, 4, None), (1, "b", 0, None, None), (1, "a", 5, 8, None), global_ranks=(0, 1))
    assert made.names == ("a", "b")
    assert made.ranks.tolist() == [8, 4]
    assert [n.tolist() for n in made.number] == [[1], [1], [0]]
    assert ranks_on(made) == [1, 0, 5]


@pytest.mark.parametrize("highest", [None, 1])
def test_ranks_that_nobody_says_are_in_the_order_of_the_global_ones(highest: int | None) -> None:
    """Tasks are in order of rank; two reports of one task, the last ones here, are one member of it."""
    made = found(
        (2, "a", None, None, None),
        (1, "a", None, None, highest),
        (1, "a", None, None, None),
        global_ranks=(5, 6, 7),
    )
    assert ranks_on(made) == [1, 0, 0]
    assert made.ranks.tolist() == [2]


def test_where_reports_are_missing_the_global_rank_counts() -> None:
    """An operation of one of two tasks names a peer of rank 2; that one of them is in two reports makes no third."""
    made = found((0, "a", None, None, 2), (1, "a", None, None, 0), (1, "a", None, None, None), global_ranks=(1, 3))
    assert ranks_on(made) == [1, 3, 3]
    assert made.task[1].tolist() == [1]


def test_how_many_ranks_there_are_is_not_known_by_one_task() -> None:
    made = found((0, "a", None, None, None), (0, "a", None, None, None), global_ranks=(3,))
    assert made.ranks.tolist() == [0]


def test_a_process_that_is_no_task_has_no_global_rank() -> None:
    made = found((0, "a", None, None, 9), (UNKNOWN_NUMBER, "a", None, None, 9), global_ranks=(4,))
    assert ranks_on(made) == [4, UNKNOWN_NUMBER]


def test_processes_that_are_no_task_have_no_rank_in_common() -> None:
    made = found(
        (UNKNOWN_NUMBER, "a", 1, 3, None),
        (UNKNOWN_NUMBER, "a", 2, 3, None),
        (UNKNOWN_NUMBER, "a", None, 3, None),
        global_ranks=(),
    )
    assert ranks_on(made) == [1, 2, 0]


def test_members_are_of_their_reports_by_their_numbers() -> None:
    said = (0, "b", 0, 2, None), (0, "a", 1, 2, None), (1, "a", 0, 2, None)
    made = found(*said, global_ranks=(0, 1), reports=(0, 0, 1))
    assert [n.tolist() for n in made.number] == [[1, 0], [0]]
    assert [n.tolist() for n in made.rank] == [[0, 1], [0]]
    assert set(made.counted) == {0, 1}


# (task, GPU of several, rank that it says, the only GPU) of a member of one communicator.
OnGpu = tuple[int, int | None, int | None, int | None]


def on_gpus(*reports: list[OnGpu], global_ranks: tuple[int, ...]) -> Communicators:
    """Of reports of the same processes."""
    summaries = []
    for r, said in enumerate(reports):
        rows = [
            (n, task, gpu, "a", rank, None, None, only, None, None) for n, (task, gpu, rank, only) in enumerate(said)
        ]
        members = pl.DataFrame(rows, schema=MEMBER, orient="row")
        summaries.append(summary(str(r), "node")._replace(members=members))
    numbers = range(len(reports))
    tasks = [
        Task(0, t, "app", rank, tuple(RecordedProcess(r, t) for r in numbers)) for t, rank in enumerate(global_ranks)
    ]
    return find_communicators(summaries, tasks)


def test_each_gpu_of_a_process_is_a_rank() -> None:
    said = [(1, 0, None, None), (1, 1, None, None), (0, 1, None, None), (0, 3, None, None)]
    made = on_gpus(said, global_ranks=(0, 1))
    assert (ranks_on(made), made.ranks.tolist()) == ([2, 3, 0, 1], [4])
    assert made.device[0].tolist() == [0, 1, 1, 3]


def test_what_a_report_says_of_gpus_counts_in_all_of_the_process() -> None:
    said, silent = [(0, 0, 1, None), (0, 1, 0, None)], [(0, 1, None, None), (0, 0, None, None)]
    assert ranks_on(on_gpus(said, silent, global_ranks=(0,))) == [1, 0, 0, 1]


def test_who_says_no_rank_has_none_that_is_said_of_others() -> None:
    assert ranks_on(on_gpus([(0, 0, 1, None), (0, 1, None, None)], global_ranks=(0,))) == [1, 0]


def test_what_is_of_an_unknown_gpu_is_of_no_rank_and_makes_no_further_one() -> None:
    said = [(0, UNKNOWN_GPU, 1, None), (0, 0, None, None), (0, 1, None, None), (1, None, None, 0)]
    made = on_gpus(said, global_ranks=(0, 1))
    assert (ranks_on(made), made.ranks.tolist()) == ([UNKNOWN_NUMBER, 0, 1, 2], [3])
    assert made.device[0].tolist() == [UNKNOWN_NUMBER, 0, 1, SOLE_MEMBER]


@pytest.mark.parametrize(
    ("one", "other", "devices"),
    [
        # In the second report only one of the GPUs ran something; then two reports of one GPU each, and of the same.
        ([(0, 0, None, None), (0, 1, None, None)], [(0, None, None, 1)], [0, 1, 1]),
        ([(0, None, None, 0)], [(0, None, None, 1)], [0, 1]),
        ([(0, None, None, 1)], [(0, None, None, 1)], [SOLE_MEMBER, SOLE_MEMBER]),
        ([(0, None, None, 1)], [(0, None, None, None)], [SOLE_MEMBER, SOLE_MEMBER]),
    ],
)
def test_a_gpu_is_told_by_all_reports_of_its_process(one: list[OnGpu], other: list[OnGpu], devices: list[int]) -> None:
    made = on_gpus(one, other, global_ranks=(0,))
    assert [device for of_report in made.device for device in of_report.tolist()] == devices

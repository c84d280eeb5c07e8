"""Which processes of several reports are one task, and the order of tasks."""

from __future__ import annotations

import polars as pl
import pytest
from exports import tid
from synthetic import summary

from nsys2prv.model.interning import PLACE, THREAD, Place
from nsys2prv.report.identity import Process
from nsys2prv.run.clocks import Clock
from nsys2prv.run.hosts import find_hosts
from nsys2prv.run.ranks import RankFrom, numbers_of_tasks
from nsys2prv.run.report_summary import PLACE_USE, Summary
from nsys2prv.run.tasks import find_tasks


def report(
    first: int,
    last: int,
    rank: int | None = 0,
    session: str = "",
    name: str = "/bin/app",
    pid: int = 100,
    host: str = "node",
) -> Summary:
    """A report of one process, with events from `first` to `last`."""
    made = summary("", host)
    process = Process(tid(0, pid), pid, name, rank)
    return made._replace(
        identity=made.identity._replace(session=session, processes=(process,)),
        places=pl.DataFrame([(*Place(THREAD, tid(0, pid), pid), 0)], schema=PLACE, orient="row"),
        uses=pl.DataFrame([(0, "cuda_api", True, 9, first, last)], schema=PLACE_USE, orient="row"),
    )


def tasks(*reports: Summary, rank_from: RankFrom = "mpi") -> list[tuple[str, list[int]]]:
    """Label of each task, and the reports that it is in."""
    hosts = find_hosts([r.identity for r in reports], [""] * len(reports), {})
    found = find_tasks(reports, [Clock(0, 0)] * len(reports), hosts, rank_from)
    return [(task.label, [process.report for process in task.recorded]) for task in found]


@pytest.mark.parametrize(
    ("reports", "parts"),
    [
        # What follows on each other.
        ([report(0, 10), report(10, 20)], [[0, 1]]),
        ([report(10, 20), report(0, 10)], [[1, 0]]),
        ([report(0, 11), report(10, 20)], [[0], [1]]),
        ([report(0, 10, None), report(10, 20, None)], [[0], [1]]),
        ([report(0, 10, 0), report(10, 20, 1)], [[0], [1]]),
        ([report(0, 10), report(10, 20, name="/bin/other")], [[0], [1]]),
        ([report(0, 10), report(10, 20, host="other")], [[0], [1]]),
        # Of one session.
        ([report(0, 11, session="a"), report(10, 20, session="a")], [[0, 1]]),
        ([report(0, 11, None, session="a"), report(10, 20, session="a")], [[0, 1]]),
        ([report(0, 11, session="a"), report(10, 20, session="b")], [[0], [1]]),
        ([report(0, 10, 0, session="a"), report(10, 20, 1, session="a")], [[0], [1]]),
        # A third that agrees with one of two.
        ([report(0, 10), report(20, 30), report(25, 35)], [[0, 1], [2]]),
    ],
)
def test_reports_of_one_process_are_one_task(reports: list[Summary], parts: list[list[int]]) -> None:
    assert sorted(recorded for _, recorded in tasks(*reports)) == sorted(parts)


def test_tasks_are_in_order_of_rank_then_host_then_pid() -> None:
    reports = [
        report(0, 10, None, host="node10"),
        report(0, 10, None, host="node2", pid=101),
        report(0, 10, None, host="node2"),
        report(0, 10, 1, host="node2", pid=102),
        report(0, 10, 0, host="node10", pid=103),
    ]
    assert [label for label, _ in tasks(*reports)] == [
        "rank 0 app:103",
        "rank 1 app:102",
        "app:100",
        "app:101",
        "app:100",
    ]
    assert [recorded for _, recorded in tasks(*reports)] == [[4], [3], [2], [1], [0]]


def launched(rank: int, *pids: int) -> Summary:
    """A report to which the launcher gave a rank, with processes that use a GPU."""
    made = report(0, 10)
    places = [(*Place(THREAD, tid(0, pid), pid), n) for n, pid in enumerate(pids)]
    uses = [(n, "cuda_api", True, 9, 0, 10) for n in range(len(pids))]
    return made._replace(
        identity=made.identity._replace(
            environment={"RANK": str(rank)},
            processes=tuple(Process(tid(0, pid), pid, "app", None) for pid in pids),
            contexts=tuple((pid, 0) for pid in pids),
        ),
        places=pl.DataFrame(places, schema=PLACE, orient="row"),
        uses=pl.DataFrame(uses, schema=PLACE_USE, orient="row"),
    )


def test_the_rank_of_a_report_with_a_helper_is_that_of_its_first_process() -> None:
    reports = [launched(0, 100), launched(1, 101), launched(2, 150, 102)]
    assert [label for label, _ in tasks(*reports, rank_from="env")] == [
        "rank 0 app:100",
        "rank 1 app:101",
        "rank 2 app:102",
        "app:150",
    ]


def test_the_rank_of_a_launcher_is_that_of_none_of_the_processes_it_started() -> None:
    reports = [launched(0, 100, 101), launched(1, 102)]
    assert [label for label, _ in tasks(*reports, rank_from="env")] == ["rank 1 app:102", "app:100", "app:101"]


def test_tasks_without_a_rank_of_their_own_are_numbered_behind_the_others() -> None:
    assert numbers_of_tasks([3, None, 1, 3, None]) == (3, 4, 1, 5, 6)
    assert numbers_of_tasks([None, None]) == (0, 1)

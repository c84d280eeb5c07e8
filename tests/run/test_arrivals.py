"""When the last rank that an operation needs has come, by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from nsys2prv.model.frames import COLLECTIVE, COMPLETION, RECEIVE, SEND
from nsys2prv.model.function_numbers import MPI_NUMBERS as NUMBER
from nsys2prv.pipeline.match.waiting import ACTIVITY, arrivals_of, waiting_points
from nsys2prv.run.matching.arrivals import (
    ARRIVAL,
    EAGER,
    LATE_RECEIVER,
    latest_arrivals,
    with_arrivals,
    with_operation,
    with_rooted_arrivals,
)
from nsys2prv.run.matching.communicators import SOLE_MEMBER, UNKNOWN_NUMBER
from nsys2prv.run.matching.messages import JOINED

# Task, when its activity could go on, and the task that it waited for.
Ready = tuple[int, int | None, int | None]


def ends_of(*parts: dict[str, Any]) -> pl.DataFrame:
    """JOINED; a rank's row and task are its number, and an activity lasts until 100."""
    usual = {"family": "nccl", "kind": COLLECTIVE, "communicator": 0, "tag": 7, "sequence": 1, "ended": 100}
    rows = [
        {**dict.fromkeys(JOINED), **usual, "device": SOLE_MEMBER, "row": p["rank"], "task": p["rank"], **p}
        for p in parts
    ]
    return pl.DataFrame(rows, schema=JOINED)


def ready(*parts: dict[str, Any]) -> list[Ready]:
    found = with_arrivals(with_operation(ends_of(*parts)))
    return found.select("task", *ARRIVAL).rows()


def mpi(rank: int, name: str, began: int, root: int | None = None) -> dict[str, Any]:
    return {"family": "mpi", "rank": rank, "operation": NUMBER[name], "began": began, "peer": root}


def message(family: str, kind: int, rank: int, peer: int, began: int) -> dict[str, Any]:
    return {"family": family, "kind": kind, "rank": rank, "peer": peer, "began": began}


def test_all_wait_for_the_last_rank_of_a_collective() -> None:
    """
    rank 0   10 |wwwwwwwwwwwwwwwwwwtttttt|
    rank 1          40 |wwwwwwwwwwwtttttt|
    rank 2                    70 |tttttt|
    """
    parts = [{"rank": n, "began": began} for n, began in enumerate((10, 40, 70))]
    assert ready(*parts) == [(0, 70, 2), (1, 70, 2), (2, 70, 2)]


def test_a_part_alone_in_its_collective_has_no_arrival() -> None:
    """The reports of the others are missing: that rank 0 is the root may be a guess."""
    assert ready(mpi(0, "MPI_Bcast", 10, root=0)) == [(0, None, None)]
    assert ready(mpi(0, "MPI_Bcast", 10, root=0), mpi(1, "MPI_Bcast", 20, root=0)) == [(0, 10, None), (1, 10, 0)]


# Begin and end of each rank's part in a Broadcast from rank 0.
Part = tuple[int, int]


def rooted(*parts: Part, clock_error: int = 0) -> list[tuple[int, int, bool]]:
    """Return ARRIVAL, and whether the rank is awaited, of the parts in an operation by rank."""
    rows = [(3, n, *part, True, None, None) for n, part in enumerate(parts)]
    schema = {c: pl.Int64() for c in ("operation", "task", "began", "ended")} | {"awaited": pl.Boolean()} | ARRIVAL
    found = with_rooted_arrivals(pl.DataFrame(rows, schema=schema, orient="row"), ["operation"], clock_error)
    return found.sort("task").select(*ARRIVAL, "awaited").rows()


def test_ranks_of_a_broadcast_wait_for_those_that_began_before_they_ended() -> None:
    """
    rank 0 (root)  10 |tt| 14
    rank 1                     50 |tt| 54              hands the data on
    rank 2     5 |wwwwwwwwwwwwwwwwwtt| 55
    rank 3                                 90 |tt| 94
    """
    assert rooted((10, 14), (50, 54), (5, 55), (90, 94)) == [
        (10, 0, True),
        (50, 1, True),
        (50, 1, True),
        (90, 3, False),
    ]
    assert rooted((10, 14), (30, 34)) == [(10, 0, True), (30, 1, False)]
    assert rooted((10, 50), (30, 60)) == [(30, 1, True), (30, 1, True)], "the root's buffers were full"


def test_of_ranks_that_began_at_one_time_the_higher_task_counts() -> None:
    assert rooted((10, 60), (40, 61), (40, 62)) == [(40, 2, True)] * 3


def test_by_another_clock_a_rank_may_seem_to_begin_after_those_that_it_held_up() -> None:
    """Rank 1 has waited for the root, whose clock is late. That rank 2 began after it had ended is no cause."""
    assert rooted((60, 64), (10, 55)) == [(60, 0, False), (10, 1, True)]
    assert rooted((60, 64), (10, 55), clock_error=20) == [(60, 0, True), (60, 0, True)]
    assert rooted((40, 44), (10, 45), (60, 64), clock_error=20)[1] == (40, 0, True)


def test_operations_are_told_apart_by_communicator_and_number() -> None:
    parts = [
        {"rank": 0, "began": 10},
        {"rank": 1, "began": 20},
        {"rank": 0, "began": 30, "sequence": 2},
        {"rank": 1, "began": 25, "sequence": 2},
        {"rank": 1, "began": 90, "communicator": 1},
        {"rank": 2, "began": 80, "communicator": 1},
    ]
    assert [last for _, last, _ in ready(*parts)] == [20, 20, 30, 30, 90, 90]


def test_of_two_that_come_last_the_higher_task_counts() -> None:
    assert ready(*({"rank": n, "began": began} for n, began in enumerate((10, 40, 40)))) == [
        (0, 40, 2),
        (1, 40, 2),
        (2, 40, 2),
    ]


def test_one_rank_alone_knows_nothing() -> None:
    assert ready({"rank": 0, "began": 10}) == [(0, None, None)]


@pytest.mark.parametrize("missing", [{"began": None}, {"device": UNKNOWN_NUMBER}])
def test_a_part_without_an_activity_or_a_rank_is_no_arrival(missing: dict[str, Any]) -> None:
    assert ready({"rank": 0, "began": 10}, {"rank": 1, "began": 40, **missing}) == [(0, None, None), (1, None, None)]


def test_a_receive_waits_for_its_send_and_an_mpi_send_for_nobody() -> None:
    """
    rank 0              30 |tttttt|   sends
    rank 1   10 |wwwwwwwwwwwtttttt|   receives
    """
    send, receive = message("mpi", SEND, 0, 1, 30), message("mpi", RECEIVE, 1, 0, 10)
    assert ready(send, receive) == [(0, 30, None), (1, 30, 0)]
    late = message("mpi", RECEIVE, 1, 0, 50)
    assert ready(send, late) == [(0, 30, None), (1, 30, 0)]


def test_both_sides_of_an_nccl_message_wait() -> None:
    """A kernel that sends needs the one that receives."""
    send, receive = message("nccl", SEND, 0, 1, 30), message("nccl", RECEIVE, 1, 0, 50)
    assert ready(send, receive) == [(0, 50, 1), (1, 50, 1)]


def test_a_receive_without_its_send_knows_nothing_and_a_send_alone_waits_for_nobody() -> None:
    assert ready(message("mpi", RECEIVE, 1, 0, 10)) == [(1, None, None)]
    assert ready(message("mpi", SEND, 0, 1, 10)) == [(0, 10, None)]
    assert ready(message("nccl", SEND, 0, 1, 10)) == [(0, None, None)]


def test_a_send_that_lasts_until_its_receive_begins_waits_for_the_late_receiver() -> None:
    """
    rank 0   10 |wwwwwwwwwwwwwwwwwwwwwwwww|tttttt|   sends a large message
    rank 1                           25,010 |tttttt|   receives
    """
    send = {**message("mpi", SEND, 0, 1, 10), "ended": 30_000, "size": EAGER, "operation": NUMBER["MPI_Send"]}
    receive = {**message("mpi", RECEIVE, 1, 0, 25_010), "ended": 30_000, "operation": NUMBER["MPI_Recv"]}
    assert ready(send, receive) == [(0, 25_010, 1), (1, 10, 0)]
    found = with_arrivals(with_operation(ends_of(send, receive)))
    assert found["waits"].to_list() == [True, True]
    assert ready({**send, "ended": 25_010}, receive)[0] == (0, 10, None), "it had ended: it only copied"
    assert ready({**send, "size": EAGER - 1}, receive)[0] == (0, 10, None), "MPI copies it"
    by_chance = {**receive, "began": LATE_RECEIVER + 9}
    assert ready(send, by_chance)[0] == (0, 10, None), "a copy takes as long"
    for only_copies in ("MPI_Bsend", "MPI_Isend", "MPI_Send_init"):
        assert ready({**send, "operation": NUMBER[only_copies]}, receive)[0] == (0, 10, None), only_copies
    begun_before = {**receive, "operation": NUMBER["MPI_Irecv"]}
    assert ready(send, begun_before)[0] == (0, 10, None), "only its wait begins late"
    of_nccl = [{**part, "family": "nccl"} for part in (send, receive)]
    assert ready(*of_nccl) == [(0, 25_010, 1), (1, 25_010, 1)]


def test_ranks_wait_for_the_root_that_sends_to_them() -> None:
    """
    rank 0 (root)        30 |tttt|
    rank 1   10 |wwwwwwwwwwwwtttt|
    rank 2                            90 |tttt|
    """
    parts = [mpi(n, "MPI_Bcast", began, root=0) for n, began in enumerate((30, 10, 90))]
    assert ready(*parts) == [(0, 30, None), (1, 30, 0), (2, 30, 0)]
    scattered = [mpi(n, "MPI_Scatterv", began, root=0) for n, began in enumerate((30, 10, 90))]
    assert ready(*scattered) == ready(*parts)


def test_a_root_waits_for_the_ranks_that_send_to_it() -> None:
    parts = [mpi(n, "MPI_Reduce", began, root=1) for n, began in enumerate((30, 10, 90))]
    assert ready(*parts) == [(0, 30, None), (1, 90, 2), (2, 90, None)]
    assert ready(*(mpi(n, "MPI_Gather", began, root=1) for n, began in enumerate((30, 10, 90)))) == ready(*parts)


def test_a_call_that_only_begins_a_collective_waits_for_nobody() -> None:
    parts = [mpi(n, "MPI_Iallreduce", began) for n, began in enumerate((30, 10))]
    assert ready(*parts) == [(0, 30, None), (1, 10, None)]


def waits_for(rank: int, name: str, began: int, root: int | None = None) -> dict[str, Any]:
    return {**mpi(rank, name, began, root), "kind": COMPLETION}


def test_the_call_that_completes_a_collective_waits_until_the_last_rank_has_begun_it() -> None:
    """
    rank 0         30 |begins|      45 |tttttttttt|
    rank 1   10 |begins|   20 |wwwwwwtttttttttttttt|
    """
    begun = [mpi(n, "MPI_Iallreduce", began) for n, began in enumerate((30, 10))]
    done = [waits_for(n, "MPI_Iallreduce", began) for n, began in enumerate((45, 20))]
    assert ready(*begun, *done) == [(0, 30, None), (1, 10, None), (0, 30, 0), (1, 30, 0)]
    assert ready(begun[1], done[1]) == [(1, None, None), (1, None, None)], "the other rank is not known"


def test_completions_of_rooted_collectives_wait_as_the_blocking_ones() -> None:
    begun = [mpi(n, "MPI_Ibcast", began, root=0) for n, began in enumerate((30, 10))]
    done = [waits_for(n, "MPI_Ibcast", began, root=0) for n, began in enumerate((45, 20))]
    assert ready(*begun, *done)[2:] == [(0, 45, None), (1, 30, 0)]
    begun, done = ([{**part, "operation": NUMBER["MPI_Ireduce"]} for part in parts] for parts in (begun, done))
    assert ready(*begun, *done)[2:] == [(0, 10, 1), (1, 20, None)]


def test_an_activity_with_several_operations_takes_the_latest_arrival() -> None:
    """Rank 0's kernel exchanges messages with ranks 1 and 2, and 2 comes last."""
    parts = [
        message("nccl", SEND, 0, 1, 10),
        message("nccl", RECEIVE, 0, 2, 10),
        message("nccl", RECEIVE, 1, 0, 30),
        message("nccl", SEND, 2, 0, 60),
    ]
    found = latest_arrivals(with_arrivals(with_operation(ends_of(*parts))), ["task"])
    assert sorted(found.rows()) == [(0, 60, 2), (1, 30, 1), (2, 60, 2)]


def test_events_begin_and_end_within_the_activity_and_the_trace() -> None:
    """
    rank 0   10 |1(rank 3)     |80 2    |100 0       a wait and its transfer
    rank 1   20 |1(rank 3)        |70 0              its end is before the last begin: it only waits
    rank 2   -5 |1 (rank 3) from 0 |80 2   |120 -> 110, the end of the trace
    rank 3             80 |2      |100 0             the last rank
    """
    began_ended = ((10, 100), (20, 70), (-5, 120), (80, 100))
    ends = ends_of(*({"rank": n, "began": b, "ended": e} for n, (b, e) in enumerate(began_ended)))
    points = waiting_points(arrivals_of(ends, 110), 110)
    said = points.select("row", "time", "combination", "waited_for").sort("row", "time", "combination").rows()
    assert said == [
        (0, 10, 1, 4), (0, 80, 0, 0), (0, 80, 2, None), (0, 100, 0, None),
        (1, 20, 1, 4), (1, 70, 0, 0),
        (2, 0, 1, 4), (2, 80, 0, 0), (2, 80, 2, None), (2, 110, 0, None),
        (3, 80, 2, None), (3, 100, 0, None),
    ]  # fmt: skip
    assert points["time"].is_sorted()
    assert arrivals_of(ends, 10).select(ACTIVITY).rows() == [(-5, 120, 2)]

"""Messages find their other side and collectives their peers, whatever the order and division of the ends."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys2prv.model.frames import COLLECTIVE, RECEIVE, SEND
from nsys2prv.model.losses import Loss
from nsys2prv.run.matching.communicators import SOLE_MEMBER, UNKNOWN_NUMBER
from nsys2prv.run.matching.messages import JOINED, MatchCounts, check_collectives, match_messages


def joined(rows: list[dict[str, object]]) -> pl.DataFrame:
    """Ends with what they do not say left empty; a rank's row and task are its number."""
    usual = {"family": "mpi", "communicator": 0, "tag": 7, "sequence": 1, "size": 8, "time": 0}
    full = [
        {**dict.fromkeys(JOINED), **usual, "device": SOLE_MEMBER, "row": r["rank"], "task": r["rank"], **r}
        for r in rows
    ]
    return pl.DataFrame(full, schema=JOINED)


def message(source: int, target: int, sequence: int = 1, sent: int = 10, received: int = 20) -> list[dict[str, object]]:
    return [
        {"kind": SEND, "rank": source, "peer": target, "sequence": sequence, "time": sent},
        {"kind": RECEIVE, "rank": target, "peer": source, "sequence": sequence, "time": received},
    ]


TRAFFIC = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), max_size=40)


@given(TRAFFIC, st.randoms(use_true_random=False))
def test_every_message_is_matched_once_in_any_order(traffic: list[tuple[int, int, int]], dice: random.Random) -> None:
    """The k-th message from one rank to another with one tag is the k-th that the other receives from it."""
    count: dict[tuple[int, int, int], int] = {}
    ends, wanted = [], set()
    for n, (source, target, tag) in enumerate(traffic):
        k = count[source, target, tag] = count.get((source, target, tag), 0) + 1
        ends += [{**end, "tag": tag} for end in message(source, target, k, sent=n, received=1000 + n)]
        wanted.add((n, source, 1000 + n, target, tag))
    dice.shuffle(ends)
    found, counts = match_messages(joined(ends))
    assert set(found.select("time", "row", "received", "to_row", "tag").rows()) == wanted
    assert found.height == len(traffic)
    assert not counts.left


def test_an_end_alone_is_counted_and_none_is_drawn() -> None:
    send, _ = message(0, 1)
    _, receive = message(0, 1, sequence=2)
    found, counts = match_messages(joined([send, receive]))
    assert found.is_empty()
    assert sorted(counts.left.values()) == [1, 1]


def test_two_processes_that_claim_one_end_give_one_message() -> None:
    send, receive = message(0, 1)
    again = {**send, "task": 5, "row": 5}
    found, counts = match_messages(joined([again, send, receive]))
    assert found["row"].to_list() == [0]
    assert counts.left == {("mpi", Loss.CLAIMED_TWICE): 1}


def test_an_end_that_comes_twice_gives_one_message_and_the_other_is_counted() -> None:
    send, receive = message(0, 1)
    found, counts = match_messages(joined([send, send, receive]))
    assert found.height == 1
    assert counts.left == {("mpi", Loss.CLAIMED_TWICE): 1}


def test_a_process_of_unknown_rank_matches_nothing() -> None:
    send, receive = message(0, 1)
    found, counts = match_messages(joined([{**send, "rank": UNKNOWN_NUMBER}, receive]))
    assert found.is_empty()
    assert counts.left[("mpi", Loss.NO_RANK)] == 1


def test_ends_without_their_peer_are_counted_once_each() -> None:
    sends = [
        {**message(0, 1, sequence)[0], "family": "nccl", "peer": None, "time": sequence} for sequence in range(1, 6)
    ]
    found, counts = match_messages(joined(sends))
    assert found.is_empty()
    assert counts.left == {("nccl", Loss.NO_PEER): 5}


@pytest.mark.parametrize(("sent", "room", "size"), [(100, 200, 100), (None, 200, 200), (None, None, 0), (0, 200, 0)])
def test_a_message_is_as_large_as_its_send_says(sent: int | None, room: int | None, size: int) -> None:
    """A receive may have room for more."""
    send, receive = message(0, 1)
    messages, _ = match_messages(joined([{**send, "size": sent}, {**receive, "size": room}]))
    assert messages["size"][0] == size


def collective(
    rank: int, operation: int = 10, size: int | None = 4, root: int | None = None, device: int = SOLE_MEMBER
) -> dict[str, object]:
    own = {"kind": COLLECTIVE, "rank": rank, "operation": operation, "size": size, "peer": root}
    return {**own, "device": device}


ALIKE = [collective(0), collective(1)]


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (ALIKE, []),
        ([collective(0), collective(1, size=None)], []),
        ([collective(0), collective(1, operation=8)], ["MPI_Barrier or MPI_Allreduce on 2 of 2 ranks"]),
        ([collective(0), collective(1, size=8)], ["MPI_Allreduce of 4 or 8 bytes on 2 of 2 ranks"]),
        ([collective(0, root=0), collective(1, root=1)], ["MPI_Allreduce with root 0 or 1 on 2 of 2 ranks"]),
        ([collective(0, root=0), collective(1)], []),
        ([collective(0)], ["MPI_Allreduce on 1 of 2 ranks"]),
        # Two GPUs of one process, and what is not known to be of which: it may have another number than it should.
        ([collective(0), collective(0, device=1)], []),
        ([collective(0), collective(1), collective(1, operation=8, device=UNKNOWN_NUMBER)], []),
        # Two reports of one process may both hold it.
        ([collective(0), collective(0)], ["MPI_Allreduce on 1 of 2 ranks"]),
    ],
)
def test_collectives_that_differ_between_ranks_are_told(ends: list[dict[str, object]], told: list[str]) -> None:
    counts = check_collectives(joined(ends), [2])
    assert [text for _, _, text in counts.mismatches] == told
    assert counts.operations == 1


def test_counts_of_parts_are_those_of_the_whole() -> None:
    ends = [[{**collective(r, operation=8 + r), "sequence": k} for r in (0, 1)] for k in range(1, 9)]
    parts = MatchCounts()
    whole = check_collectives(joined([e for pair in ends for e in pair]), [2])
    for pair in reversed(ends):
        part = check_collectives(joined(pair), [2])
        parts.add(part)
    assert (parts.mismatches, parts.mismatched, parts.operations) == (whole.mismatches, whole.mismatched, 8)

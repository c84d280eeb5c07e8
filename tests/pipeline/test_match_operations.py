"""NCCL's operations on the device are matched by their ids, where all ranks of a communicator have them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from exports import tid
from nccl_reports import COMMUNICATOR, ID, Row, call, operation, report

import nsys2prv
from nsys2prv.model.event_types import WAITED_FOR, WAITING
from nsys2prv.model.line_tags import NCCL_TAG
from nsys2prv.model.losses import Loss

REDUCE, SENDS = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_SendRecv"
PIDS = (100, 200)


def kernels(*begins: int, length: int = 80, name: str = REDUCE) -> list[Row]:
    return [(begin, begin + length, 7, name) for begin in begins]


def operated(*begins: int, ids: list[int | None], rank: int, **payload: object) -> list[Row]:
    """Operations of two channels within kernels that begin then."""
    return [
        operation(begin + 2 + n, begin + 70, pid=PIDS[rank], commRank=rank, channelId=n, operationId=number, **payload)
        for begin, number in zip(begins, ids, strict=True)
        for n in range(2)
    ]


def made(folder: Path, *ranks: tuple[list[Row], list[Row]]) -> list[Path]:
    """A report for each rank, of NVTX rows and kernels."""
    return [
        report(folder / f"rank{n}.sqlite", rows, work, PIDS[n]) for n, (rows, work) in enumerate(ranks)
    ]  # fmt: skip


def operations(reports: list[Path], origin: int = 100) -> list[list[tuple[int | None, int]]]:
    """Parts of each operation: rank and begin of what carries it (ns of the reports, whose first event is then)."""
    with nsys2prv.load(reports, execution=nsys2prv.Execution(jobs=1)) as run:
        parts = run.messages
    each = parts.sort("rank", "start").group_by("operation").agg(pl.struct("rank", pl.col("start") + origin))
    return sorted([tuple(part.values()) for part in parts_of] for parts_of in each["rank"].to_list())


def test_collectives_are_matched_by_id_where_a_rank_began_to_record_late(tmp_path: Path) -> None:
    """Counted, the first operation of rank 1 would be the first one of rank 0."""
    first, second, third = ID, 2**64 - 1, 5
    reports = made(
        tmp_path,
        (operated(100, 200, 300, ids=[first, second, third], rank=0), kernels(100, 200, 300)),
        (operated(210, 320, ids=[second, third], rank=1), kernels(210, 320)),
    )
    assert operations(reports) == [[(0, 100)], [(0, 200), (1, 210)], [(0, 300), (1, 320)]]
    result = nsys2prv.translate(reports, tmp_path / "trace")
    assert result.prv is not None
    trace = nsys2prv.read_prv(result.prv)
    waits = trace.intervals(WAITING.number).filter(value=1).select("task", "start", "end").sort("start").rows()
    assert waits == [(1, 100, 110), (1, 200, 220)]
    assert set(trace.intervals(WAITED_FOR.number)["value"]) == {2}
    (warning,) = result.warnings
    assert f"collective {first} of communicator {COMMUNICATOR}: AllReduce on 1 of 2 ranks" in warning


def test_without_ids_sequence_numbers_of_nccl_tell_as_much(tmp_path: Path) -> None:
    """NCCL counts each operation by itself."""
    gathers = {"text": "AllGather", "seqNumber": 1}
    reports = made(
        tmp_path,
        (
            operated(100, ids=[None], rank=0, seqNumber=1) + operated(200, ids=[None], rank=0, **gathers),
            kernels(100, 200),
        ),
        (operated(210, ids=[None], rank=1, **gathers), kernels(210)),
    )
    assert operations(reports) == [[(0, 100)], [(0, 200), (1, 210)]]


@pytest.mark.parametrize("peers", [True, False])
def test_a_send_is_matched_with_its_receive_by_id(tmp_path: Path, peers: bool) -> None:
    """Rank 1 receives in the other order, which no number of messages can tell. Peers may not be given."""
    ids = [ID, ID + 1]
    to, of = ({"peer": 1}, {"peer": 0}) if peers else ({}, {})
    reports = made(
        tmp_path,
        (operated(100, 200, ids=ids, rank=0, text="ncclSend", **to), kernels(100, 200, name=SENDS)),
        (operated(110, 300, ids=ids[::-1], rank=1, text="ncclRecv", **of), kernels(110, 300, length=200, name=SENDS)),
    )
    assert operations(reports) == [[(0, 100), (1, 300)], [(0, 200), (1, 110)]]
    result = nsys2prv.translate(reports, tmp_path / "trace")
    assert result.prv is not None
    lines = nsys2prv.read_prv(result.prv).messages.filter(tag=NCCL_TAG)
    found = lines.select("task", "sent", "to_task", "received", "size").sort("sent").rows()
    assert found == [(1, 2, 2, 270, 4096), (1, 102, 2, 80, 4096)]
    assert dict(result.messages) == {"nccl": 2}
    assert not result.warnings


def test_with_a_rank_of_legacy_tracing_all_are_counted_as_before(tmp_path: Path) -> None:
    """Rank 0 has calls too in the first run, which count then, and none in the second."""
    legacy = [call(100, 104, pid=200), call(200, 204, pid=200)], kernels(101, 201)
    rows = operated(110, 220, ids=[7, 8], rank=0)
    for name, calls in (("both", [call(108, 114), call(218, 224)]), ("alone", [])):
        folder = tmp_path / name
        folder.mkdir()
        reports = made(folder, ([*calls, *rows], kernels(110, 220)), legacy)
        assert operations(reports) == [[(0, 110), (1, 101)], [(0, 220), (1, 201)]]
        result = nsys2prv.translate(reports, folder / "trace")
        assert not result.warnings


def test_calls_beside_operations_of_all_ranks_count_no_operation_twice(tmp_path: Path) -> None:
    """The calls say more than the operations: rank 1 has one that ran before the recording of the device."""
    reports = made(
        tmp_path,
        ([call(98, 104), call(198, 204), *operated(100, 200, ids=[7, 8], rank=0)], kernels(100, 200)),
        ([call(50, 60, pid=200), call(98, 104, pid=200), *operated(100, 210, ids=[7, 8], rank=1)], kernels(100, 210)),
    )
    assert operations(reports, origin=50) == [[(0, 100), (1, 100)], [(0, 200), (1, 210)]]


def test_collectives_on_copy_engines_are_matched_without_a_kernel(tmp_path: Path) -> None:
    copies = "start end globalPid deviceId streamId bytes copyKind"
    reports = [
        report(
            tmp_path / f"rank{rank}.sqlite",
            operated(100 + 20 * rank, ids=[ID], rank=rank),
            [],
            pid,
            CUPTI_ACTIVITY_KIND_MEMCPY=(copies, [(100, 400, tid(0, pid), 0, 7, 8, 8)]),
        )
        for rank, pid in enumerate(PIDS)
    ]
    assert operations(reports) == [[(0, 102), (1, 122)]]
    result = nsys2prv.translate(reports, tmp_path / "trace")
    assert result.prv is not None
    waits = nsys2prv.read_prv(result.prv).intervals(WAITING.number).filter(value=1)
    assert waits.select("task", "start", "end").rows() == [(1, 2, 22)]


def test_a_process_in_two_reports_of_one_session_has_each_operation_once(tmp_path: Path) -> None:
    """Its operations are matched by id, or counted over both reports beside a rank that only has calls."""
    rows, work = operated(100, 200, ids=[7, 8], rank=0), kernels(100, 200)
    late = operated(300, ids=[9], rank=0), kernels(300)
    operated_too = operated(210, 320, ids=[8, 9], rank=1), kernels(210, 320)
    called = [call(begin, begin + 4, pid=200) for begin in (105, 205, 305)], kernels(106, 206, 306)
    for name, other in (("identified", operated_too), ("counted", called)):
        folder = tmp_path / name
        folder.mkdir()
        reports = [
            *made(folder, (rows, work), other),
            report(folder / "rank0-again.sqlite", [*rows[2:], *late[0]], [*work[1:], *late[1]]),
        ]
        for path in reports:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV AS SELECT 'Hostname' AS name, 'node1' AS value")
                connection.execute(
                    "CREATE TABLE META_DATA_CAPTURE AS SELECT 'PROFILING_SESSION_UUID' AS name, 1 AS value"
                )
        if other is called:
            assert operations(reports) == [[(0, 100), (1, 106)], [(0, 200), (1, 206)], [(0, 300), (1, 306)]]
        else:
            assert operations(reports) == [[(0, 100)], [(0, 200), (1, 210)], [(0, 300), (1, 320)]]


def test_messages_of_no_direction_and_operations_of_no_communicator_are_told(tmp_path: Path) -> None:
    rows = [
        operation(110, 120, "Exchange", operationClass="p2p"),
        operation(130, 140, "AllReduce", commHash=None, operationId=3),
    ]
    path = report(tmp_path / "r.sqlite", rows, kernels(100))
    result = nsys2prv.translate(path, tmp_path / "trace")
    assert result.dropped["nccl_operations"] == {Loss.NOT_MATCHED.text: 2}


def test_analysis_tells_waiting_and_transfer_by_communicator(tmp_path: Path) -> None:
    """Kernels of whose calls no report tells have the communicator and the bytes of their operations."""
    reports = made(
        tmp_path,
        (operated(100, 200, 300, ids=[ID, 8, 9], rank=0), kernels(100, 200, 300)),
        (operated(210, 320, ids=[8, 9], rank=1), kernels(210, 320)),
    )
    found = nsys2prv.analyze(reports, question=nsys2prv.Question(window="trace"))
    columns = ("rank", "communicator", "operation", "activities", "bytes", "waiting_ns", "transfer_ns", "unmatched_ns")
    name = str(COMMUNICATOR)
    table = found.explanation.communication
    assert table.filter(pl.col("operation") != "all").select(columns).rows() == [
        (0, name, "AllReduce", 3, 3 * 4096, 30, 210, 80),
        (1, name, "AllReduce", 2, 2 * 4096, 0, 160, 0),
    ]


def test_clocks_of_hosts_are_compared_by_operations_on_the_device(tmp_path: Path) -> None:
    """Rank 1 began to record late, and its clock is 3 ms ahead. NCCL's own sequence numbers tell what is the same."""
    ahead, reports = 3_000_000, []
    for rank, (first, shift) in enumerate([(0, 0), (5, ahead)]):
        rows, work = [], []
        for n in range(first, 64):
            begin, end = 1000 + 10_000_000 * n + 900_000 * (n % 7) + shift, 5_000_000 + 10_000_000 * n + shift
            rows.append(operation(begin, end, pid=PIDS[rank], commRank=rank, seqNumber=n, operationId=n))
            work.append((begin, end, 7, REDUCE))
        reports.append(report(tmp_path / f"rank{rank}.sqlite", rows, work, PIDS[rank]))
        with closing(sqlite3.connect(reports[-1])) as connection, connection:
            host = f"SELECT 'Hostname' AS name, 'node{rank}' AS value"
            connection.execute(f"CREATE TABLE TARGET_INFO_SYSTEM_ENV AS {host}")
    found = nsys2prv.align(reports).reports
    assert {one.method for one in found} == {"collectives"}
    assert found[1].offset_ns - found[0].offset_ns == pytest.approx(-ahead, abs=1000)

"""NCCL's operations on the device, of which there is no real report: rows are made by the documentation."""

from __future__ import annotations

import json
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from exports import MAIN, PROCESS, Drawn
from nccl_reports import COMMUNICATOR, ID, RANGE, call, operation, report

import nsys2prv
from nsys2prv.families import nvtx_counts
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.extract import extract
from nsys2prv.report.slicing import slices

FAMILIES = ("kernels", "nccl", "nccl_operations", "nvtx", "projection")
STREAM = "CUDA-D0.S7"
OPERATION, COMM, SIZE, ELEMENTS, TYPE, PEER, CHANNELS, SEQUENCE, NUMBER = range(70000140, 70000149)


KERNEL = (100, 900, 7, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")


def values(drawn: Drawn, kind: int) -> list[int]:
    """Values of an event type but the 0 of its ends, in order of time."""
    return [value for _, _, value in drawn.samples(kind) if value]


def test_channels_are_merged_to_one_operation_on_the_stream_of_its_kernel(tmp_path: Path) -> None:
    rows = [operation(110, 800, channelId=0, seqNumber=3), operation(105, 850, channelId=1, seqNumber=3)]
    other = (100, 900, 8, "gemm")
    drawn = Drawn(report(tmp_path / "r.sqlite", rows, [KERNEL, other]), "states", *FAMILIES, begin=100)
    assert drawn.intervals(OPERATION) == [(STREAM, 105, 850, "AllReduce")]
    assert drawn.labels(COMM) == {1: str(COMMUNICATOR)}
    assert drawn.labels(TYPE) == {1: "Float32"}
    attributes = {kind: values(drawn, kind) for kind in (SIZE, ELEMENTS, CHANNELS, SEQUENCE, NUMBER)}
    assert attributes == {SIZE: [4096], ELEMENTS: [1024], CHANNELS: [2], SEQUENCE: [4], NUMBER: [7]}
    assert not drawn.dropped("nccl_operations")
    # Neither a call of a host thread nor a range, nor a sign that the thread is alive: its last call took 1 ns.
    assert not {t for t in drawn.trace.events["type"] if t == 9500 or 9600 <= t < 20000 or t >= 70100000}
    assert drawn.trace.states.filter(thread=1)["end"].to_list() == [1]


def test_operations_of_one_kernel_that_overlap_are_on_rows_of_their_own(tmp_path: Path) -> None:
    """The id of the second is not given: it is found by communicator, operation and sequence number."""
    rows = [
        operation(110, 500, channelId=0, seqNumber=3),
        operation(300, 700, channelId=1, seqNumber=4, operationId=None),
        operation(310, 720, channelId=2, seqNumber=4, operationId=-9),
        operation(710, 890, "ncclAllGather", channelId=0, seqNumber=3, operationId=None),
        operation(715, 880, "ncclAllGather", channelId=1, seqNumber=3, operationId=None),
    ]
    drawn = Drawn(report(tmp_path / "r.sqlite", rows, [KERNEL]), *FAMILIES, begin=100)
    found = drawn.trace.intervals(OPERATION).sort("start").select("thread", "start", "end", "label").rows()
    assert found == [(1, 10, 400, "AllReduce"), (2, 200, 620, "AllReduce"), (1, 610, 790, "AllGather")]
    assert drawn.row(1, 2) == STREAM
    assert sorted(values(drawn, NUMBER)) == [7, 2**53 - 9]


@pytest.mark.parametrize("number", [{}, {"seqNumber": -1}, {"seqNumber": 0}], ids=["none", "negative", "zero"])
def test_messages_and_operations_without_id_or_number_are_not_taken_for_one(
    number: dict[str, int], tmp_path: Path
) -> None:
    """NCCL numbers no messages. A negative number is none."""
    rows = [operation(n, n + 50, "ncclSend", operationId=None, peer=n // 100, **number) for n in (110, 210)]
    if number.get("seqNumber") != 0:
        rows += [operation(n, n + 50, operationId=None, **number) for n in (310, 410)]
    drawn = Drawn(report(tmp_path / "r.sqlite", rows, [KERNEL]), *FAMILIES, begin=100)
    assert [(start, end) for _, start, end, _ in drawn.intervals(OPERATION)] == [(r[0], r[1]) for r in rows]
    assert values(drawn, PEER) == [2, 3]


def test_events_that_are_not_drawn_are_counted_in_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    legacy = {"NCCL communicator ID": COMMUNICATOR, "Message size [bytes]": 4096}
    rows = [operation(110, 800), (90, 104, RANGE, MAIN, 1, "ncclAllReduce", json.dumps(legacy))]
    reads = []
    read = nvtx_counts.read_nvtx_events
    monkeypatch.setattr(nvtx_counts, "read_nvtx_events", lambda *given: reads.append(1) or read(*given))
    made = nsys2prv.translate(
        report(tmp_path / "r.sqlite", rows, [KERNEL]), tmp_path / "trace", selection=nsys2prv.Selection(("cuda_api",))
    )
    assert {name: made.off[name] for name in ("nccl", "nccl_operations")} == {"nccl": 2, "nccl_operations": 1}
    assert "nvtx" not in made.off
    assert reads == [1]


def test_of_several_kernels_the_one_that_overlaps_most_ran_it(tmp_path: Path) -> None:
    """The second stream's first kernel overlaps less, and its second one is as good, but longer."""
    kernels = [KERNEL, (0, 300, 8, "ncclDevKernel_AllGather_RING_LL"), (400, 5000, 8, "ncclDevKernel_SendRecv")]
    rows = [operation(500, 850), operation(950, 980, "ncclSend", commRank=0, peer=1, operationId=8)]
    drawn = Drawn(report(tmp_path / "r.sqlite", rows, kernels), *FAMILIES, begin=0)
    assert drawn.intervals(OPERATION) == [(STREAM, 500, 850, "AllReduce"), ("CUDA-D0.S8", 950, 980, "Send")]
    assert values(drawn, PEER) == [2]


def test_copy_engines_run_operations_without_a_kernel(tmp_path: Path) -> None:
    """They are on the row of the process' GPU; of a process with two on the thread that the report names."""
    rows = [operation(110, 500), operation(120, 400, operationId=8), operation(2000, None, operationId=9)]
    copies = ("start end globalPid deviceId streamId bytes copyKind", [(100, 2500, PROCESS, 0, 7, 8, 8)])
    one = report(tmp_path / "one.sqlite", rows, [], CUPTI_ACTIVITY_KIND_MEMCPY=copies)
    drawn = Drawn(one, "memory", *FAMILIES, begin=100)
    gpu = "Metrics GPU0"
    assert drawn.intervals(OPERATION) == [
        (gpu, 110, 500, "AllReduce"), (gpu, 120, 400, "AllReduce"), (gpu, 2000, 2500, "AllReduce")
    ]  # fmt: skip
    assert len(set(drawn.trace.intervals(OPERATION).filter(start=10)["thread"])) == 1
    assert drawn.dropped("nccl_operations") == {"still open at the end (drawn to the last event)": 1}
    two = (copies[0], [*copies[1], (100, 2500, PROCESS, 1, 7, 8, 8)])
    drawn = Drawn(report(tmp_path / "two.sqlite", rows[:1], [], CUPTI_ACTIVITY_KIND_MEMCPY=two), "memory", *FAMILIES)
    assert [row for row, *_ in drawn.intervals(OPERATION)] == ["thread 100"]
    reason = "operations without a kernel, of a process with several GPUs or none (drawn on a host thread)"
    assert drawn.dropped("nccl_operations") == {reason: 1}


def test_host_calls_of_either_tracing_stay_what_they_are(tmp_path: Path) -> None:
    """Legacy calls are NCCL's, calls of advanced tracing ranges of its domain: none has the rank on a communicator."""
    legacy = {"NCCL communicator ID": COMMUNICATOR, "Message size [bytes]": 4096, "Reduction operation": "Sum"}
    calls = [
        (90, 104, RANGE, MAIN, 1, "ncclAllReduce", json.dumps(legacy)),
        (50, 60, RANGE, MAIN, 1, "AllReduce", json.dumps({"count": 1024, "dataType": "ncclFloat32", "rank": 0})),
    ]
    drawn = Drawn(report(tmp_path / "r.sqlite", [*calls, operation(110, 800)], [KERNEL]), *FAMILIES, begin=50)
    assert drawn.intervals(9500) == [("thread 100", 90, 104, "ncclAllReduce")]
    assert drawn.intervals(9600 + 100) == [("thread 100", 50, 60, "AllReduce")]
    assert drawn.intervals(OPERATION) == [(STREAM, 110, 800, "AllReduce")]
    assert [drawn.result.rows[family] for family in ("nccl", "nvtx", "nccl_operations")] == [2, 1, 1]


def test_fields_are_found_in_other_spellings_and_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    plain = {
        "Communicator hash": "0xfffffffffffffffb",
        "comm_rank": 1,
        "Operation ID": "0xffffffffffffffff",
        "COUNT": 2,
    }
    broken = {"commHash": 5, "commRank": 0, "operationId": "none", "seqNumber": 1.5}
    texts = ((110, 200, "ncclDevFunc_X", plain), (300, 400, "Broadcast", broken))
    rows = [(start, end, RANGE, MAIN, 1, text, json.dumps(payload)) for start, end, text, payload in texts]
    drawn = Drawn(report(tmp_path / "r.sqlite", rows, [KERNEL]), *FAMILIES, begin=100)
    assert drawn.intervals(OPERATION) == [(STREAM, 110, 200, "ncclDevFunc_X"), (STREAM, 300, 400, "Broadcast")]
    assert sorted(drawn.labels(COMM).values()) == [str(COMMUNICATOR), "5"]
    assert values(drawn, NUMBER) == [2**53 - 1]
    assert drawn.dropped("nccl_operations") == {
        "a payload, or a field of one, that cannot be read (drawn without it)": 2
    }


def test_binary_payloads_read_as_the_json_texts(tmp_path: Path) -> None:
    """A schema of three unsigned numbers of 64 bits and an enumeration."""
    blob = struct.pack("<4Q3QI", 1, 7, 28, 60, COMMUNICATOR, 0, ID, 7)
    entries = ("commHash", 18, 0), ("commRank", 18, 8), ("operationId", 18, 16), ("dataType", 1 << 24, 24)
    path = report(tmp_path / "r.sqlite", [operation(110, 800)], [KERNEL])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE NVTX_EVENTS SET jsonText = NULL, binaryData = ? WHERE jsonText IS NOT NULL", (blob,))
        connection.execute("CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId, schemaId, name, type, offset)")
        connection.executemany("INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, 7, ?, ?, ?)", entries)
        connection.execute("CREATE TABLE NVTX_PAYLOAD_ENUMS AS SELECT 1 AS domainId, 1 << 24 AS schemaId, 4 AS size")
        connection.execute(
            "CREATE TABLE NVTX_PAYLOAD_ENUM_ENTRIES AS "
            "SELECT 1 AS domainId, 1 << 24 AS schemaId, 'ncclFloat32' AS name, 7 AS value"
        )
        connection.commit()
    drawn = Drawn(path, *FAMILIES, begin=100)
    assert drawn.intervals(OPERATION) == [(STREAM, 110, 800, "AllReduce")]
    assert drawn.labels(COMM) == {1: str(COMMUNICATOR)}
    assert (drawn.labels(TYPE), values(drawn, NUMBER)) == ({1: "Float32"}, [7])


def test_operations_without_an_id_are_counted_beside_the_calls_of_another_communicator(tmp_path: Path) -> None:
    rows = [call(90, 104), operation(110, 800, "ncclRecv", commHash=5, operationId=None, peer=0)]
    drawn = Drawn(report(tmp_path / "r.sqlite", rows, [KERNEL]), *FAMILIES, begin=90)
    assert drawn.intervals(OPERATION) == [(STREAM, 110, 800, "Recv")]
    assert drawn.dropped("nccl") == {"receives without their send in the reports": 1}


def test_operations_without_a_thread_are_drawn_and_matched_with_none(tmp_path: Path) -> None:
    path = report(
        tmp_path / "r.sqlite",
        [operation(110, 800, seqNumber=3), operation(820, 850, "Reduce", operationId=None)],
        [KERNEL],
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE NVTX_EVENTS SET globalTid = NULL")
        connection.commit()
    drawn = Drawn(path, *FAMILIES, begin=100)
    assert [(start, end) for _, start, end, _ in drawn.intervals(OPERATION)] == [(110, 800), (820, 850)]
    reason = "operations on the device without a thread or a communicator, or messages of no direction"
    assert drawn.dropped("nccl_operations")[f"{reason} (drawn, not matched)"] == 2


def test_a_kernel_without_a_process_runs_no_operation(tmp_path: Path) -> None:
    path = report(tmp_path / "r.sqlite", [operation(110, 800)], [KERNEL, (100, 900, 8, KERNEL[3])])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = NULL WHERE streamId = 7")
        connection.commit()
    assert Drawn(path, *FAMILIES, begin=100).intervals(OPERATION) == [("CUDA-D0.S8", 110, 800, "AllReduce")]


def test_slices_of_a_report_give_the_same_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one operation, and an operation and its kernel, are in slices of their own."""
    rows, kernels = [operation(40_000_000, 40_500_000, operationId=1)], []
    for n in range(300):
        start, length = 1_000_000 * n + 100, 4_200_000 if n % 5 == 0 else 900_000
        kernels.append((start, start + length, 7 + n % 3, KERNEL[3]))
        for channel in range(3):
            begin = start + 10 + channel * (length // 4)
            rows.append(operation(begin, begin + length // 3, channelId=channel, seqNumber=n, operationId=ID + n))
    path = report(tmp_path / "r.sqlite", rows, kernels)
    counts: list[int] = []

    def counting(*arguments: Any) -> slices.Slices | None:
        found = slices.divide(*arguments)
        counts.append(found.count if found else 1)
        return found

    monkeypatch.setattr(extract, "divide", counting)
    files = []
    for limits in (Limits(), Limits(slice_bytes=20_000, whole_bytes=0, piece_bytes=5_000)):
        result = nsys2prv.translate(
            path,
            tmp_path / "trace",
            selection=nsys2prv.Selection(FAMILIES),
            execution=nsys2prv.Execution(jobs=1, limits=limits),
            force=True,
        )
        assert result.prv is not None
        files.append([result.prv.with_suffix(ending).read_bytes() for ending in (".prv", ".pcf", ".row")])
    assert result.rows["nccl_operations"] == 301
    assert counts[0] == 1 < counts[1]
    assert files[0] == files[1]

"""NCCL calls and kernels have the payloads that the reports hold."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import construct
import numpy as np
import polars as pl
import pytest
from runs import SAMPLES, reports_of

import nsys2prv
from nsys2prv.families.columns_read import read_columns
from nsys2prv.families.nccl import nccl
from nsys2prv.families.nccl.nccl_anchors import SYNCHRONOUS_OPERATIONS, anchored_communicators, operation_anchors
from nsys2prv.families.nccl.nccl_calls import SEND_RECV, launch_units, launched_by, members_of
from nsys2prv.families.payloads import UNREAD, Field, payload_fields
from nsys2prv.families.source import Source
from nsys2prv.families.source_tables import SourceTables
from nsys2prv.model import event_types as types
from nsys2prv.model.losses import Loss, Lost
from nsys2prv.report import schema
from nsys2prv.report.report import open_report


def host_and_kernels(path: Path) -> tuple[pl.DataFrame, pl.DataFrame, Source]:
    """Frames of the calls and of the kernels, with event type keys as columns."""
    with open_report(path) as report:
        source = Source(SourceTables(report, read_columns([nccl.FAMILY])))
        calls, kernels, _ = nccl.FAMILY.frames(source, nccl.NcclState())
        return calls.data, kernels.data, source


def payloads(path: Path) -> list[dict[str, Any]]:
    """JSON texts of NCCL's calls, by plain SQL."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT jsonText FROM NVTX_EVENTS WHERE jsonText LIKE '%Message size%'")
        return [json.loads(text) for (text,) in rows]


NCCL_KERNELS = {"gpt-ddp": 68, "mesh-tp-pp": 164}


@pytest.mark.parametrize("run", ["gpt-ddp", pytest.param("mesh-tp-pp", marks=pytest.mark.shared)])
def test_every_kernel_carries_its_calls_and_bytes_are_those_of_sql(run: str) -> None:
    for path in reports_of(run):
        calls, kernels, source = host_and_kernels(path)
        given = payloads(path)
        assert kernels.height == NCCL_KERNELS[run]
        assert kernels[types.NCCL_COMMUNICATOR.key].null_count() == 0
        assert kernels[types.NCCL_OPERATION.key].null_count() == 0
        total = sum(p["Message size [bytes]"] for p in given)
        assert kernels[types.NCCL_BYTES.key].sum() == calls[types.NCCL_BYTES.key].sum() == total
        assert kernels[types.NCCL_MEMBERS.key].sum() == len(given)
        ids = {str(p["NCCL communicator ID"]) for p in given}
        assert set(source.labels.texts()[types.NCCL_COMMUNICATOR.key]) == ids
        assert not source.tally.dropped


def test_kernels_on_symmetric_memory_carry_their_calls_as_well(tmp_path: Path) -> None:
    """Their names from NCCL 2.27 on."""
    path = reports_of("gpt-ddp")[0]
    copy = Path(shutil.copy(path, tmp_path / path.name))
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("UPDATE StringIds SET value = replace(value, 'ncclDevKernel_', 'ncclSymkDevKernel_')")
        connection.commit()
    keys = [types.NCCL_OPERATION.key, types.NCCL_BYTES.key, types.NCCL_SEQUENCE.key]
    assert host_and_kernels(copy)[1].select(keys).equals(host_and_kernels(path)[1].select(keys))


@pytest.mark.shared
def test_a_group_s_kernel_carries_its_send_and_its_receive() -> None:
    for path in reports_of("mesh-tp-pp"):
        _, kernels, _ = host_and_kernels(path)
        groups = kernels.filter(pl.col(types.NCCL_OPERATION.key) == SEND_RECV)
        assert (groups.height, groups[types.NCCL_MEMBERS.key].sum()) == (16, 32)
        assert groups[types.NCCL_BYTES.key].unique().to_list() == [2 * 4194304]
        assert groups[types.NCCL_PEER.key].n_unique() == 1


def test_sequence_numbers_count_the_collectives_of_a_communicator() -> None:
    for path in reports_of("gpt-ddp"):
        calls, kernels, _ = host_and_kernels(path)
        assert calls.sort("start")[types.NCCL_SEQUENCE.key].to_list() == list(range(1, 69))
        assert kernels.sort("start")[types.NCCL_SEQUENCE.key].to_list() == list(range(1, 69))


@pytest.mark.parametrize("fourth_is_size", [False, True])
def test_binary_payloads_read_as_the_json_texts(tmp_path: Path, fourth_is_size: bool) -> None:
    source = reports_of("gpt-ddp")[0]
    (binary,) = construct.binary_payloads(source, tmp_path, fourth_is_size)
    for before, after in zip(host_and_kernels(source)[:2], host_and_kernels(binary)[:2], strict=True):
        assert before.equals(after)


def test_a_binary_payload_that_is_cut_short_has_the_fields_that_are_there(tmp_path: Path) -> None:
    (binary,) = construct.binary_payloads(reports_of("gpt-ddp")[0], tmp_path)
    with closing(sqlite3.connect(binary)) as connection:
        # 32 bytes of header and the communicator; the size is missing.
        connection.execute("UPDATE NVTX_EVENTS SET binaryData = substr(binaryData, 1, 40) WHERE binaryData IS NOT NULL")
        connection.commit()
    calls, _, source = host_and_kernels(binary)
    assert calls[types.NCCL_COMMUNICATOR.key].null_count() == 0
    assert calls[types.NCCL_BYTES.key].null_count() == calls.height
    assert Lost(Loss.PAYLOAD_UNREAD) in source.tally.dropped


def test_json_fields_are_found_by_any_of_their_names() -> None:
    events = pl.DataFrame(
        {"jsonText": ['{"Peer":3, "Op":"a \\"b\\""}', None, "{}"], "jsonTextId": [None, 7, None]},
        schema_overrides={"jsonTextId": pl.Int64},
    ).with_columns(binaryData=pl.lit(None, pl.Binary))
    strings = pl.DataFrame({"id": [7], "text": ['{"Peer rank":18446744073709551615,"Op":5}']})
    fields = {"peer": Field(("Peer rank", "Peer"), number=False), "op": Field(("Op",), number=False)}
    found = payload_fields(events, fields, lambda table: pl.DataFrame(), strings)
    assert found["peer"].to_list() == ["3", "18446744073709551615", None]
    assert found["op"].to_list() == ['a \\"b\\"', "5", None]
    assert found[UNREAD].to_list() == [0, 0, 0]


ENUM, FAR, LARGEST = 1 << 24, (1 << 63) - 1, (1 << 64) - 1
# Type, offset, size of the enumeration, third and fourth number of the header; and the text of the field.
BINARY = (
    (18, 0, 4, 8, 32, "5"), (18, 0, 4, 8, 40, "5"), (18, 0, 4, 1 << 63, 1 << 63, "5"), (18, 0, 4, 8, LARGEST, "5"),
    (ENUM, 0, 8, 8, 32, "five"), (ENUM, 0, 1, 8, 32, "five"), (ENUM, 4, 4, 8, 32, None), (18, 1, 4, 8, 32, None),
    (18, -8, 4, 8, 32, None), (18, FAR, 4, 8, 32, None), (18, -FAR, 4, 8, 32, None), (99, 0, 4, 8, 32, None),
    (ENUM, 0, 3, 8, 32, None), (ENUM, 0, 0, 8, 32, None), (ENUM, 0, -4, 8, 32, None), (ENUM, 0, ENUM, 8, 32, None),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "offset", "size", "third", "fourth", "text"), BINARY)
def test_a_binary_payload_has_what_can_be_read_and_the_rest_is_told(
    kind: int, offset: int, size: int, third: int, fourth: int, text: str | None
) -> None:
    blobs = [struct.pack("<5Q", 2, 7, third, fourth, 5), None, b"short", struct.pack("<4Q", 2, 8, 0, 32)]
    keys = {"jsonText": pl.String, "jsonTextId": pl.Int64, "binaryData": pl.Binary}
    of_schema = {"domainId": [2], "schemaId": [7], "type": [kind], "name": ["n"], "offset": [offset]}
    tables = {
        schema.PAYLOAD_ENTRIES: of_schema,
        schema.PAYLOAD_ENUMS: {"domainId": [2], "schemaId": [ENUM], "size": [size]},
        # The second entry has a value that no field of four bytes holds.
        schema.PAYLOAD_ENUM_ENTRIES: {
            "domainId": [2, 2],
            "schemaId": [ENUM, ENUM],
            "name": ["five", "far"],
            "value": [5, 1 << 53],
        },
    }
    found = payload_fields(
        pl.DataFrame([(None, None, blob) for blob in blobs], schema=keys, orient="row"),
        {"n": Field(("n",), number=False)},
        lambda table: pl.DataFrame(tables[table]),
        pl.DataFrame(schema={"id": pl.Int64, "text": pl.String}),
    )
    assert found["n"].to_list() == [text, None, None, None]
    assert found[UNREAD].to_list() == [int(text is None), 0, 1, 1]


@pytest.mark.parametrize(
    ("value", "unread"), [("7", 0), ('"7"', 0), ("null", 0), ('"many"', 1), ("1e3", 1), ("99999999999999999999", 1)]
)
def test_a_json_field_that_is_no_number_is_told(value: str, unread: int) -> None:
    events = pl.DataFrame(
        [(f'{{"n": {value}}}', None, None)],
        schema={"jsonText": pl.String, "jsonTextId": pl.Int64, "binaryData": pl.Binary},
        orient="row",
    )
    strings = pl.DataFrame(schema={"id": pl.Int64, "text": pl.String})
    found = payload_fields(events, {"n": Field(("n",))}, lambda table: pl.DataFrame(), strings)
    assert found.rows() == [(7 if "7" in value else None, unread)]


# Calls of one thread as (text, start, end): the unit that launches each.
def units(calls: list[tuple[str, int, int]]) -> list[int]:
    frame = pl.DataFrame(calls, schema=["text", "start", "end"], orient="row").with_columns(
        globalTid=pl.lit(1 << 24), communicator=pl.lit("c"), operation=pl.lit(1)
    )
    return launch_units(frame)["unit"].to_list()


def test_a_group_is_one_unit_up_to_its_outermost_end() -> None:
    start, end = "ncclGroupStart", "ncclGroupEnd"
    alone, inner = ("ncclAllReduce", 0, 1), ("ncclSend", 14, 15)
    nested = [(start, 10, 11), (start, 12, 13), inner, (end, 16, 17), (end, 18, 19)]
    assert units([alone, *nested, ("ncclAllReduce", 20, 21)]) == [1, 2, 2, 2, 2, 2, 3]
    assert units([(end, -5, -4), alone, ("ncclSend", 4, 5)]) == [1, 2, 3], "the capture began within a group"


def kernels(*launches: tuple[str, int]) -> pl.DataFrame:
    """Kernels launched by thread 1 at these times."""
    return pl.DataFrame(launches, schema=["name", "called"], orient="row").with_columns(
        caller=pl.lit(1, pl.Int64), start=pl.col("called") + 100
    )


def calls(*rows: tuple[int, int, int, int | None], communicators: tuple[str, ...] = ()) -> pl.DataFrame:
    """Calls of thread 1 as (start, end, unit, operation), none within another; all of one communicator or of these."""
    schema = {"start": pl.Int64, "end": pl.Int64, "unit": pl.Int64, "operation": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        pl.Series("communicator", communicators or ["7"] * len(rows)),
        globalTid=pl.lit(1, pl.Int64),
        top=pl.lit(True),
    )


def carried(launches: pl.DataFrame, made: pl.DataFrame) -> list[tuple[int, int, bool]]:
    alone = pl.lit(None, pl.Int64)
    of_unit = launches.with_columns(unit=launched_by(launches, made), device=alone)
    return members_of(of_unit, made.with_columns(device=alone)).rows()


ALL_REDUCE, SEND, RECEIVE = 1, 9, 10


def test_kernels_of_a_group_share_its_calls_by_kind_and_in_order() -> None:
    group = calls((0, 1, 1, None), (2, 3, 1, SEND), (4, 5, 1, ALL_REDUCE), (6, 7, 1, RECEIVE), (8, 19, 1, None))
    launched = kernels(("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 9), ("ncclDevKernel_SendRecv", 10))
    assert carried(launched, group) == [(0, 2, True), (1, 1, True), (1, 3, True)]
    two = calls((0, 1, 1, None), (2, 3, 1, ALL_REDUCE), (4, 5, 1, ALL_REDUCE), (8, 19, 1, None))
    same = kernels(("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 9), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10))
    assert carried(same, two) == [(0, 1, True), (1, 2, True)]


def test_kernels_of_a_group_are_in_the_order_of_their_communicators() -> None:
    """NCCL launches a group communicator by communicator, in the order of their numbers, whichever was called first."""
    high, low = "12735139012430393318", "950653740617300297"
    group = [(2 * n, 2 * n + 1, 1, ALL_REDUCE) for n in range(4)]
    launched = kernels(("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 9), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10))
    alternating = calls(*group, (8, 19, 1, None), communicators=(high, low, high, low, ""))
    assert carried(launched, alternating) == [(0, 1, True), (0, 3, True), (1, 0, True), (1, 2, True)]
    uneven = calls(*group, (8, 19, 1, None), communicators=(high, high, high, low, ""))
    assert carried(launched, uneven) == [(0, 3, True), (1, 0, True), (1, 1, True), (1, 2, True)]


def test_a_call_in_several_kernels_counts_once() -> None:
    launched = kernels(("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2))
    assert carried(launched, calls((0, 3, 1, ALL_REDUCE))) == [(0, 0, True), (1, 0, False)]


def test_a_kernel_launched_outside_all_calls_has_none() -> None:
    made = calls((0, 3, 1, ALL_REDUCE))
    launched = kernels(("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 4), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 3))
    assert launched_by(launched, made).to_list() == [None, 1]


def test_a_million_kernels_find_their_calls_by_columns() -> None:
    count = 1_000_000
    start = np.arange(count) * 10
    made = pl.DataFrame({"start": start, "end": start + 5, "unit": start, "operation": 1}).with_columns(
        globalTid=pl.lit(1, pl.Int64), top=pl.lit(True), communicator=pl.lit("7"), device=pl.lit(None, pl.Int64)
    )
    launched = pl.DataFrame({"called": start + 2, "start": start + 4}).with_columns(
        caller=pl.lit(1, pl.Int64),
        name=pl.lit("ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        device=pl.lit(None, pl.Int64),
    )
    members = members_of(launched.with_columns(unit=launched_by(launched, made)), made)
    assert (members["kernel"] == members["call"]).all()
    assert members.height == count


def test_nothing_is_made_of_nccl_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def settling(*_: object) -> None:
        raise AssertionError("there is nothing to settle")

    monkeypatch.setattr(nccl, "settle", settling)
    nsys2prv.translate(SAMPLES / "single" / "saxpy.sqlite", tmp_path / "trace", execution=nsys2prv.Execution(jobs=1))


def test_the_communicators_of_anchors_are_those_of_nccl() -> None:
    operation = {"operation": SYNCHRONOUS_OPERATIONS[0], "sequence": 0, "name": "AllReduce", "began": 1, "ended": 2}
    of_nccl = operation_anchors(pl.DataFrame([{**operation, "communicator": "7"}])).data
    of_mpi = of_nccl.with_columns(communicator=pl.lit("mpi MPI_COMM_WORLD"))
    assert anchored_communicators(pl.concat([of_nccl, of_mpi])).to_list() == ["7 AllReduce"]

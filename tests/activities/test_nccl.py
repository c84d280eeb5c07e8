"""NCCL calls and kernels have the payloads that the reports hold."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import construct
import numpy as np
import polars as pl
import pytest

from nsys2prv.activities import nccl
from nsys2prv.activities.family import Source
from nsys2prv.activities.nccl_calls import SEND_RECV, launch_units, launched_by, members_of
from nsys2prv.activities.payloads import Field, payload_fields
from nsys2prv.engine.extract import read_columns
from nsys2prv.paraver import event_types as types
from nsys2prv.report import open_report

SAMPLES = Path(__file__).parents[2] / "sample_reports"
SHARED = Path(__file__).parents[3] / "shared" / "reports"


def reports_of(run: str) -> list[Path]:
    for folder in (SAMPLES / run, SHARED / run):
        if found := sorted(folder.glob("*.sqlite")):
            return found
    pytest.skip(f"no reports of {run}")


def host_and_kernels(path: Path) -> tuple[pl.DataFrame, pl.DataFrame, Source]:
    """Frames of the calls and of the kernels, with event type keys as columns."""
    with open_report(path) as report:
        source = Source(report, read_columns([nccl.FAMILY]))
        calls, kernels, _ = nccl.FAMILY.frames(source)
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
    calls, _, _ = host_and_kernels(binary)
    assert calls[types.NCCL_COMMUNICATOR.key].null_count() == 0
    assert calls[types.NCCL_BYTES.key].null_count() == calls.height


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


def calls(*rows: tuple[int, int, int, int | None]) -> pl.DataFrame:
    """Calls of thread 1 as (start, end, unit, operation), none within another."""
    schema = {"start": pl.Int64, "end": pl.Int64, "unit": pl.Int64, "operation": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(globalTid=pl.lit(1, pl.Int64), top=pl.lit(True))


def carried(launches: pl.DataFrame, made: pl.DataFrame) -> list[tuple[int, int, bool]]:
    return members_of(launches.with_columns(unit=launched_by(launches, made)), made).rows()


ALL_REDUCE, SEND, RECEIVE = 1, 9, 10


def test_kernels_of_a_group_share_its_calls_by_kind_and_in_order() -> None:
    group = calls((0, 1, 1, None), (2, 3, 1, SEND), (4, 5, 1, ALL_REDUCE), (6, 7, 1, RECEIVE), (8, 19, 1, None))
    launched = kernels(("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 9), ("ncclDevKernel_SendRecv", 10))
    assert carried(launched, group) == [(0, 2, True), (1, 1, True), (1, 3, True)]
    two = calls((0, 1, 1, None), (2, 3, 1, ALL_REDUCE), (4, 5, 1, ALL_REDUCE), (8, 19, 1, None))
    same = kernels(("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 9), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10))
    assert carried(same, two) == [(0, 1, True), (1, 2, True)]


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
        globalTid=pl.lit(1, pl.Int64), top=pl.lit(True)
    )
    launched = pl.DataFrame({"called": start + 2, "start": start + 4}).with_columns(
        caller=pl.lit(1, pl.Int64), name=pl.lit("ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    )
    members = members_of(launched.with_columns(unit=launched_by(launched, made)), made)
    assert (members["kernel"] == members["call"]).all()
    assert members.height == count

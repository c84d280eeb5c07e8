"""Kernels of NCCL calls that do not launch them: two real ranks with a CUDA graph and a non-blocking communicator."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import nccl_reports
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import nsys2prv
from nsys2prv.families.columns_read import read_columns
from nsys2prv.families.nccl import nccl
from nsys2prv.families.source import Source
from nsys2prv.families.source_tables import SourceTables
from nsys2prv.model import event_types as types
from nsys2prv.model import line_tags
from nsys2prv.report.report import open_report

DATA = Path(__file__).parents[1] / "data" / "nccl-launches"
RANKS = sorted(DATA.glob("nccl-launches.*.sqlite"))
ROW = ["task", "thread", "start"]
ALL_REDUCE, ALL_GATHER, SEND_RECV = 1, 4, 11


def kernels(reports: list[Path], folder: Path) -> tuple[nsys2prv.Translation, pl.DataFrame]:
    """NCCL kernels in order: task, start, operation, bytes, sequence, communicator."""
    folder.mkdir(exist_ok=True)
    result = nsys2prv.translate(reports, folder / "trace", execution=nsys2prv.Execution(jobs=1))
    trace = nsys2prv.read_prv(folder / "trace.prv")
    found = trace.intervals(types.NCCL_KERNEL.number)
    begins = trace.events.filter(pl.col("value") != 0).rename({"time": "start"})
    for name, kind in [
        ("operation", types.NCCL_OPERATION),
        ("bytes", types.NCCL_BYTES),
        ("sequence", types.NCCL_SEQUENCE),
        ("communicator", types.NCCL_COMMUNICATOR),
    ]:
        values = begins.filter(pl.col("type") == kind.number).select(*ROW, pl.col("value").alias(name))
        found = found.join(values, on=ROW, how="left")
    return result, found.sort("task", "start")


def test_every_kernel_has_the_payload_of_its_call(tmp_path: Path) -> None:
    """Three all-reduces, an exchange, a graph of an all-reduce and an all-gather launched four times, an all-reduce.

    Then three of half the size on the communicator that does not block.
    """
    result, found = kernels(RANKS, tmp_path)
    mebi = 1 << 20
    replay = [(ALL_REDUCE, mebi), (ALL_GATHER, mebi)]
    first = [*[(ALL_REDUCE, mebi)] * 3, (SEND_RECV, 7992), *replay * 4, (ALL_REDUCE, mebi)]
    for (_,), rank in found.group_by("task"):
        assert rank.select("operation", "bytes").rows() == [*first, *[(ALL_REDUCE, mebi // 2)] * 3]
        assert rank["sequence"].to_list() == [1, 2, 3, None, *range(4, 13), 1, 2, 3]
        assert rank["communicator"].n_unique() == 2
    assert (result.warnings, "nccl" in result.dropped, dict(result.messages)) == ((), False, {"nccl": 2})


def test_binary_payloads_say_what_the_json_says(tmp_path: Path) -> None:
    """These reports were exported with both."""
    _, wanted = kernels(RANKS, tmp_path)
    binary = [Path(shutil.copy(report, tmp_path)) for report in RANKS]
    for report in binary:
        with closing(sqlite3.connect(report)) as connection, connection:
            connection.execute("UPDATE NVTX_EVENTS SET jsonText = NULL")
    _, found = kernels(binary, tmp_path / "binary")
    assert_frame_equal(found, wanted)


def test_a_captured_call_has_no_number_of_its_own(tmp_path: Path) -> None:
    nsys2prv.translate(RANKS[0], tmp_path / "trace")
    trace = nsys2prv.read_prv(tmp_path / "trace.prv")
    numbered = trace.events.filter((pl.col("type") == types.NCCL_SEQUENCE.number) & (pl.col("value") != 0))
    calls = trace.intervals(types.NCCL_CALL.number).filter(pl.col("label").is_in(["ncclAllReduce", "ncclAllGather"]))
    on_calls = calls.join(numbered.rename({"time": "start", "value": "k"}), on=ROW, how="left")
    assert on_calls.sort("start")["k"].to_list() == [1, 2, 3, None, None, 12, 1, 2, 3]


def test_launches_that_do_not_take_turns_with_calls_have_no_payload(tmp_path: Path) -> None:
    """Without the second of three calls it is not known whose the kernels of NCCL's threads are."""
    report = Path(shutil.copy(RANKS[0], tmp_path))
    with closing(sqlite3.connect(report)) as connection, connection:
        groups = "SELECT rowid FROM NVTX_EVENTS WHERE start > 4700000000 ORDER BY start LIMIT 3"
        connection.execute(f"DELETE FROM NVTX_EVENTS WHERE rowid IN ({groups})")
    result, found = kernels([report], tmp_path)
    assert found["operation"].null_count() == 3
    reasons = {reason: n for reason, n in result.dropped["nccl"].items() if "a thread without NCCL calls" in reason}
    assert list(reasons.values()) == [3]


def changed(report: Path, folder: Path, *statements: str) -> Path:
    copy = Path(shutil.copy(report, folder))
    with closing(sqlite3.connect(copy)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return copy


def test_the_number_of_ranks_is_what_init_said(tmp_path: Path) -> None:
    """One report of two: by the processes that are there, the number would not be known."""
    result, found = kernels(RANKS[:1], tmp_path)
    trace = nsys2prv.read_prv(tmp_path / "trace.prv")
    bus = trace.events.filter((pl.col("type") == types.NCCL_BUS_BANDWIDTH.number) & (pl.col("value") != 0))
    assert bus.height == found.height
    assert any("on 1 of 2 ranks" in text for text in result.warnings)


def test_the_rank_on_a_communicator_is_what_init_said(tmp_path: Path) -> None:
    """Here the ranks on the communicator are in the opposite order of the processes."""
    swap = "UPDATE NVTX_EVENTS SET jsonText = replace(jsonText, '\"{0}\":{1}', '\"{0}\":{2}')"
    reports = [
        changed(report, tmp_path, swap.format("Rank", r, 1 - r), swap.format("Peer rank", 1 - r, r))
        for r, report in enumerate(RANKS)
    ]
    result, _ = kernels(reports, tmp_path)
    lines = nsys2prv.read_prv(tmp_path / "trace.prv").messages.filter(pl.col("tag") == line_tags.NCCL_TAG)
    assert sorted(lines.select("task", "to_task").rows()) == [(1, 2), (2, 1)]
    assert result.warnings == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ncclCommInitRank", [(0, 2), (0, 2)]),
        ("ncclCommDestroy", [(0, 2), (0, 2)]),
        # Says the new communicator, and the rank and number of ranks of its parent.
        ("ncclCommSplit", [(None, None), (0, 2)]),
    ],
)
def test_which_calls_say_the_rank(tmp_path: Path, text: str, said: list[tuple[int | None, int | None]]) -> None:
    name = f"UPDATE StringIds SET value = '{text}' WHERE value = 'ncclCommInitRank'"
    with open_report(changed(RANKS[0], tmp_path, name)) as report:
        source = Source(SourceTables(report, read_columns([nccl.FAMILY])))
        list(nccl.FAMILY.frames(source, nccl.NcclState()))
    assert source.members.table.sort("communicator").select("rank", "ranks").rows() == said


def test_without_payloads_all_kernels_are_drawn(tmp_path: Path) -> None:
    """Those that a graph launched, too. The names of calls tell their operations."""
    _, wanted = kernels(RANKS[:1], tmp_path)
    none = "UPDATE NVTX_EVENTS SET jsonText = NULL, binaryData = NULL"
    result, found = kernels([changed(RANKS[0], tmp_path, none)], tmp_path / "none")
    assert_frame_equal(found.select(*ROW, "label", "operation"), wanted.select(*ROW, "label", "operation"))
    assert found.select("communicator", "bytes").null_count().row(0) == (found.height, found.height)
    bare = [n for reason, n in result.dropped["nccl"].items() if "kernels" in reason and "without" in reason]
    assert sum(bare) == wanted.height


def test_a_call_with_two_kernels_is_the_payload_of_both(tmp_path: Path) -> None:
    """Bytes count in the first one."""
    names = [(start, start + 40, 7, "ncclDevKernel_AllReduce_Sum_f32_RING_LL") for start in (110, 150)]
    result, found = kernels(
        [nccl_reports.report(tmp_path / "a.sqlite", [nccl_reports.call(100, 200)], names)], tmp_path / "out"
    )
    assert found["operation"].n_unique() == found["communicator"].n_unique() == 1
    assert found["bytes"].fill_null(0).to_list() == [4096, 0]
    assert "nccl" not in result.dropped


def test_payloads_without_a_communicator_say_the_rest(tmp_path: Path) -> None:
    """So they were before NCCL 2.25, when those of sends and receives called their size `Bytes`."""
    _, wanted = kernels(RANKS, tmp_path)
    (tmp_path / "old").mkdir()
    size = "replace(jsonText, 'Message size [bytes]', iif(jsonText LIKE '%Peer%', 'Bytes', 'Message size [bytes]'))"
    without = f"json_remove({size}, '$.\"NCCL communicator ID\"')"
    old = "UPDATE NVTX_EVENTS SET binaryData = NULL, jsonText = " + without
    reports = [changed(report, tmp_path / "old", old) for report in RANKS]
    result, found = kernels(reports, tmp_path / "old")
    assert_frame_equal(found.drop("sequence", "communicator"), wanted.drop("sequence", "communicator"))
    assert found["sequence"].null_count() == found["communicator"].null_count() == found.height
    assert (result.warnings, "nccl" in result.dropped, dict(result.messages)) == ((), False, {})
    trace = nsys2prv.read_prv(tmp_path / "old" / "trace.prv")
    rates = trace.events.filter((pl.col("type") == types.NCCL_ALGORITHM_BANDWIDTH.number) & (pl.col("value") != 0))
    assert rates.height == found.filter(pl.col("operation") != ALL_GATHER).height

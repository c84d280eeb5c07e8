"""Kernels of NCCL calls that do not launch them: two real ranks with a CUDA graph and a non-blocking communicator."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

import nsys2prv
from nsys2prv.paraver import event_types as types

DATA = Path(__file__).parents[1] / "data" / "nccl-launches"
RANKS = sorted(DATA.glob("nccl-launches.*.sqlite"))
ROW = ["task", "thread", "start"]
ALL_REDUCE, ALL_GATHER, SEND_RECV = 1, 4, 11


def kernels(reports: list[Path], folder: Path) -> tuple[nsys2prv.Translation, pl.DataFrame]:
    """NCCL kernels in order: task, start, operation, bytes, sequence, communicator."""
    folder.mkdir(exist_ok=True)
    result = nsys2prv.translate(reports, folder / "trace", jobs=1)
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


def test_several_gpus_of_one_process_on_a_communicator_are_told(tmp_path: Path) -> None:
    result, found = kernels([DATA / "two-gpus.sqlite"], tmp_path)
    assert found["operation"].to_list().count(ALL_REDUCE) == 6
    assert any("several GPUs of one process are on one NCCL communicator" in text for text in result.warnings)

"""One process with two GPUs on two communicators: each GPU is a rank of its own.

groups.sqlite is of a program that sends what its comments say: messages of so many floats more as is the number of who
sends them. On the first communicator a GPU's rank is its number; on the second, ranks are the other way round.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from test_nccl_launches import ALL_GATHER, ALL_REDUCE, DATA, SEND_RECV, changed, kernels

import nsys2prv
from nsys2prv.families.columns_read import read_columns
from nsys2prv.families.nccl import nccl
from nsys2prv.families.nccl.nccl_gpus import on_gpus
from nsys2prv.families.source import FamilyOptions, Source
from nsys2prv.families.source_tables import SourceTables
from nsys2prv.model import event_types as types
from nsys2prv.model import line_tags
from nsys2prv.model.frames import Anchors
from nsys2prv.model.interning import UNKNOWN_GPU
from nsys2prv.report.report import open_report

REPORT = DATA / "groups.sqlite"
BROADCAST, REDUCE_SCATTER = 2, 5
MEBI = 1 << 20
FIRST, SECOND = "17751038835671284038", "4936844108225605627"
# Operation, bytes, number on the communicator, communicator: what each of the GPUs runs, in order.
ROUND = [
    (ALL_REDUCE, MEBI, True, FIRST),
    (BROADCAST, MEBI // 2, True, FIRST),
    # To the other GPU and from it: called GPU by GPU, then all sends before all receives, then one way only.
    (SEND_RECV, 4 * (1000 + 1001), False, FIRST),
    (SEND_RECV, 4 * (2000 + 2001), False, FIRST),
    (None, 4 * 3000, False, FIRST),
]
AROUND = [(ALL_GATHER, MEBI // 4, True, SECOND), (SEND_RECV, 4 * (4000 + 4001), False, SECOND)]
# Both communicators in one group: first runs what is of the lower number. Then each GPU has a thread.
BOTH = [(ALL_REDUCE, MEBI // 2, True, SECOND), (ALL_REDUCE, MEBI, True, FIRST)]
THREADS = [(ALL_REDUCE, MEBI, True, FIRST), (SEND_RECV, 4 * (5000 + 5001), False, FIRST)]
RUN = [*ROUND, *ROUND, *AROUND, *AROUND, *BOTH, *THREADS * 3]
SEND, RECV = 9, 10
# Bytes from the first GPU to the second, and back.
THERE = [*[4 * n for n in (1000, 2000, 3000)] * 2, *[4 * 4001] * 2, *[4 * 5000] * 3]
BACK = [*[4 * n for n in (1001, 2001)] * 2, *[4 * 4000] * 2, *[4 * 5001] * 3]


def on_device(found: pl.DataFrame, trace: nsys2prv.Trace, device: int) -> pl.DataFrame:
    rows = [n for n, name in enumerate(trace.names["THREAD"], 1) if name.startswith(f"CUDA-D{device}.")]
    return found.filter(pl.col("thread").is_in(rows)).sort("start")


@pytest.mark.parametrize("device", [0, 1])
def test_each_gpu_is_a_rank(device: int, tmp_path: Path) -> None:
    result, found = kernels([REPORT], tmp_path)
    trace = nsys2prv.read_prv(tmp_path / "trace.prv")
    own = on_device(found, trace, device)
    names = trace.values[types.NCCL_COMMUNICATOR.number]
    # Of what went one way, one GPU sent and the other received.
    wanted = [((SEND, RECV)[device] if what is None else what, size) for what, size, _, _ in RUN]
    assert own.select("operation", "bytes").rows() == wanted
    assert [names[c] for c in own["communicator"]] == [communicator for *_, communicator in RUN]
    counts = {FIRST: 0, SECOND: 0}
    for (_, _, numbered, communicator), number in zip(RUN, own["sequence"], strict=True):
        counts[communicator] += numbered
        assert number == (counts[communicator] if numbered else None)
    assert (result.warnings, "nccl" in result.dropped) == ((), False)


def test_messages_go_from_gpu_to_gpu(tmp_path: Path) -> None:
    result, _ = kernels([REPORT], tmp_path)
    trace = nsys2prv.read_prv(tmp_path / "trace.prv")
    rows = {gpu: n for n, name in enumerate(trace.names["THREAD"], 1) for gpu in (0, 1) if f"-D{gpu}." in name}
    lines = trace.messages.filter(pl.col("tag") == line_tags.NCCL_TAG).sort("sent")
    for source, target, wanted in ((0, 1, THERE), (1, 0, BACK)):
        ours = lines.filter((pl.col("thread") == rows[source]) & (pl.col("to_thread") == rows[target]))
        assert ours["size"].to_list() == wanted
    assert lines.height == len(THERE) + len(BACK)
    assert dict(result.messages) == {"nccl": lines.height}


def test_ranks_follow_gpus_after_ncclcomminitall(tmp_path: Path) -> None:
    """Of this report no call says a rank: three all-reduces, then the GPUs send each other 999 floats."""
    result, found = kernels([DATA / "two-gpus.sqlite"], tmp_path)
    trace = nsys2prv.read_prv(tmp_path / "trace.prv")
    for device in (0, 1):
        own = on_device(found, trace, device)
        assert own.select("operation", "bytes", "sequence").rows() == [
            *[(ALL_REDUCE, MEBI, n) for n in (1, 2, 3)],
            (SEND_RECV, 2 * 3996, None),
        ]
    lines = trace.messages.filter(pl.col("tag") == line_tags.NCCL_TAG)
    assert lines["size"].to_list() == [3996] * 2
    assert lines["thread"].n_unique() == lines["to_thread"].n_unique() == 2
    assert (result.warnings, "nccl" in result.dropped) == ((), False)


def test_bus_bandwidth_is_that_of_two_ranks(tmp_path: Path) -> None:
    """An all-reduce of two ranks moves over the bus what it has: 2 (n - 1) / n is 1."""
    _, found = kernels([REPORT], tmp_path)
    trace = nsys2prv.read_prv(tmp_path / "trace.prv")
    begins = trace.events.filter(pl.col("value") != 0)
    reduced = found.filter(pl.col("operation") == ALL_REDUCE).select("thread", time="start")
    algorithm, bus = (
        reduced.join(begins.filter(pl.col("type") == kind.number), on=["thread", "time"])["value"].to_list()
        for kind in (types.NCCL_ALGORITHM_BANDWIDTH, types.NCCL_BUS_BANDWIDTH)
    )
    assert len(bus) == 2 * sum(what == ALL_REDUCE for what, *_ in RUN)
    assert bus == algorithm


@pytest.mark.parametrize("device", [0, 1])
def test_jax_drives_each_gpu_by_a_thread(device: int, tmp_path: Path) -> None:
    """Seven steps that gather, reduce and scatter on one communicator, and pass on around a ring on another."""
    result, found = kernels([DATA / "jax.sqlite"], tmp_path)
    trace = nsys2prv.read_prv(tmp_path / "trace.prv")
    own = on_device(found, trace, device)
    step = [(ALL_GATHER, 4 * MEBI), (REDUCE_SCATTER, 4 * MEBI), (SEND_RECV, 8 * MEBI)]
    assert own.select("operation", "bytes").rows() == step * 7
    assert own["sequence"].drop_nulls().to_list() == list(range(1, 15))
    lines = trace.messages.filter(pl.col("tag") == line_tags.NCCL_TAG)
    assert lines.group_by("thread", "to_thread").len()["len"].to_list() == [7, 7]
    assert (dict(result.messages), result.warnings, "nccl" in result.dropped) == ({"nccl": 14}, (), False)


@pytest.mark.parametrize("device", [0, 1])
def test_a_graph_of_one_gpu_repeats_what_was_called_for_it(device: int, tmp_path: Path) -> None:
    """Groups for both GPUs were captured into a graph for each, which are launched three times."""
    result, found = kernels([DATA / "graphs.sqlite"], tmp_path)
    own = on_device(found, nsys2prv.read_prv(tmp_path / "trace.prv"), device)
    captured = [(ALL_REDUCE, MEBI // 2), (SEND_RECV, 4 * (2000 + 2001)), (ALL_REDUCE, MEBI // 4)]
    before = [(ALL_REDUCE, MEBI), (SEND_RECV, 4 * (1000 + 1001))]
    assert own.select("operation", "bytes").rows() == [*before, *captured * 3, (ALL_REDUCE, MEBI)]
    assert own["sequence"].drop_nulls().to_list() == list(range(1, 9))
    assert dict(result.messages) == {"nccl": 2 * 4}
    assert (result.warnings, "nccl" in result.dropped) == ((), False)


def test_without_its_kernels_a_call_is_of_no_gpu(tmp_path: Path) -> None:
    """The first all-reduce, of which no kernel was recorded: it is told, and what follows is numbered from 1."""
    kernel = "SELECT min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY deviceId"
    report = changed(REPORT, tmp_path, f"DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start IN ({kernel})")
    result, found = kernels([report], tmp_path / "less")
    trace = nsys2prv.read_prv(tmp_path / "less" / "trace.prv")
    for device in (0, 1):
        own = on_device(found, trace, device)
        assert own.filter(pl.col("operation") == BROADCAST)["sequence"].to_list() == [1, 3]
    told = [n for reason, n in result.dropped["nccl"].items() if "of an unknown GPU" in reason]
    assert (told, result.warnings) == ([2], ())


@pytest.mark.parametrize("cut", [758589788, 811725254, 813312218])
def test_reports_of_parts_of_a_run_make_the_trace_of_the_whole(cut: int, tmp_path: Path) -> None:
    """At the first time both ranks are said in the second part only; after the last one GPU alone has kernels."""
    session = "INSERT INTO META_DATA_CAPTURE (name, value) VALUES ('PROFILING_SESSION_UUID', 'one')"
    launch = "(SELECT min(r.start) FROM CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.correlationId = k.correlationId)"
    parts = []
    for name, beyond in (("a", ">="), ("b", "<")):
        (tmp_path / name).mkdir()
        calls = f"DELETE FROM NVTX_EVENTS WHERE eventType = 59 AND start {beyond} {cut}"
        work = f"DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL AS k WHERE {launch} {beyond} {cut}"
        parts.append(changed(REPORT, tmp_path / name, session, calls, work).rename(tmp_path / f"{name}.sqlite"))
    whole, wanted = kernels([REPORT], tmp_path / "whole")
    found, rows = kernels(parts, tmp_path / "parts")
    assert_frame_equal(rows, wanted)
    lines = [nsys2prv.read_prv(tmp_path / run / "trace.prv").messages for run in ("parts", "whole")]
    assert_frame_equal(*lines)
    assert dict(found.messages) == dict(whole.messages) == {"nccl": len(THERE) + len(BACK)}


def test_kernels_of_no_process_are_drawn(tmp_path: Path) -> None:
    """All of them, then some beside those of a process with two GPUs."""
    for n, some in enumerate(("1", "rowid % 3 = 0")):
        (tmp_path / str(n)).mkdir()
        lost = f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = NULL WHERE {some}"
        _, found = kernels([changed(REPORT, tmp_path / str(n), lost)], tmp_path / str(n) / "out")
        assert found.height == 2 * len(RUN)


def test_operations_of_unknown_gpu_are_no_anchors(tmp_path: Path) -> None:
    """In the group of both communicators one of four calls is missing: the others' numbers are those of early ones."""
    report = changed(REPORT, tmp_path, "DELETE FROM NVTX_EVENTS WHERE start = 811873655")
    with open_report(report) as opened:
        source = Source(SourceTables(opened, read_columns([nccl.FAMILY])), FamilyOptions(anchors=True))
        found = pl.concat(f.data for f in nccl.FAMILY.frames(source, nccl.FAMILY.state()) if isinstance(f, Anchors))
    # Each GPU's kernel of each; the broadcasts, 2 and 4, are no anchors.
    counted = found.group_by("communicator", "sequence").len().sort("communicator", "sequence").rows()
    assert counted == [
        *[(f"nccl {FIRST}", number, 2) for number in (1, 3, 5, 6, 7)],
        *[(f"nccl {SECOND}", number, 2) for number in (1, 2)],
    ]


def test_ranks_follow_gpus_where_no_report_says_them(tmp_path: Path) -> None:
    """ncclCommDestroy, here the one call that says ranks, was not recorded: right for the first communicator."""
    destroyed = "SELECT id FROM StringIds WHERE value = 'ncclCommDestroy'"
    report = changed(REPORT, tmp_path, f"DELETE FROM NVTX_EVENTS WHERE textId IN ({destroyed})")
    kernels([report], tmp_path / "less")
    trace = nsys2prv.read_prv(tmp_path / "less" / "trace.prv")
    lines = trace.messages.filter((pl.col("tag") == line_tags.NCCL_TAG) & ~pl.col("size").is_in([4 * 4000, 4 * 4001]))
    first, second = (lines.filter(pl.col("thread") == lines["thread"].unique().sort()[n]) for n in (0, 1))
    assert first.sort("sent")["size"].to_list() == [n for n in THERE if n != 4 * 4001]
    assert second.sort("sent")["size"].to_list() == [n for n in BACK if n != 4 * 4000]


def test_two_processes_with_two_gpus_each(tmp_path: Path) -> None:
    """Another host's process beside it, on communicators of its own: nothing of one is matched with the other's."""
    other = Path(shutil.copy(REPORT, tmp_path / "other.sqlite"))
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = 'node1' WHERE name = 'Hostname'")
        for old, new in ((FIRST, "111"), (SECOND, "99")):
            connection.execute(
                "UPDATE NVTX_EVENTS SET binaryData = NULL, jsonText = replace(jsonText, ?, ?)", (old, new)
            )
    result, found = kernels([REPORT, other], tmp_path / "both")
    assert found.height == 4 * len(RUN)
    assert dict(result.messages) == {"nccl": 2 * (len(THERE) + len(BACK))}
    assert not [text for text in result.warnings if "collective" in text]


# An operation, the communicator that it is on, and whom it is for or from.
Call = tuple[int, str, int | None]
SHARED = [(ALL_REDUCE, "c", None)] * 2


def calls_of(units: list[list[Call]], said: tuple[tuple[str, int, int], ...] = ()) -> pl.DataFrame:
    """Calls of one process, unit after unit, each with an end of its group, which is no operation.

    Then those that say which GPU has which rank on communicator c: (text, GPU, rank).
    """
    named = {"operation": pl.Int64, "communicator": pl.String, "peer": pl.Int64}
    named |= {"text": pl.String, "gpu": pl.Int64, "rank": pl.Int64}
    nothing = (None, None, None)
    rows = [(n, *call, *nothing) for n, unit in enumerate(units, 1) for call in [*unit, nothing]]
    rows += [(len(units) + n, None, "c", None, *told) for n, told in enumerate(said, 1)]
    made = pl.DataFrame(rows, schema={"unit": pl.Int64, **named}, orient="row")
    return made.with_columns(
        *(pl.lit(None, pl.Int64).alias(c) for c in ("root", "reduction")),
        origin="unit",
        repeated=pl.lit(False),
        globalTid=pl.lit(1 << 24, pl.Int64),
        bytes=pl.lit(8, pl.Int64),
    )


@pytest.mark.parametrize(
    ("operations", "gpus", "wanted"),
    [
        ([(ALL_REDUCE, "c", None)] * 3, [7, 6, 5], [5, 6, 7]),
        ([(ALL_REDUCE, "c", None), (ALL_GATHER, "c", None)] * 2, [1, 0], [0, 0, 1, 1]),
        ([*SHARED, *[(ALL_GATHER, "c", None)] * 2], [1, 0], [0, 1, 0, 1]),
        ([(SEND, "c", 1), (RECV, "c", 1), (SEND, "c", 0), (RECV, "c", 0)], [1, 0], [0, 0, 1, 1]),
        ([(SEND, "c", 1), (SEND, "c", 0), (RECV, "c", 1), (RECV, "c", 0)], [1, 0], [0, 1, 0, 1]),
        # All in one direction: by what they do alone they could be in turns.
        ([(SEND, "c", 1), (SEND, "c", 1), (RECV, "c", 0), (RECV, "c", 0)], [1, 0], [0, 0, 1, 1]),
        # With GPUs of other processes.
        ([(SEND, "c", 5), (RECV, "c", 5), (SEND, "c", 6), (RECV, "c", 6)], [1, 0], [0, 0, 1, 1]),
        ([(SEND, "c", 5), (RECV, "c", 6)], [1, 0], [0, 1]),
        # A pipeline: the first only sends, the last only receives.
        ([(SEND, "c", 1), (RECV, "c", 0), (SEND, "c", 2), (RECV, "c", 1)], [2, 1, 0], [UNKNOWN_GPU] * 4),
        # Neither is like the other's.
        ([(SEND, "c", 1), (SEND, "c", 1), (RECV, "c", 0), (ALL_REDUCE, "c", None)], [1, 0], [UNKNOWN_GPU] * 4),
        # A thread of its own.
        ([(SEND, "c", 0), (SEND, "c", 1), (RECV, "c", 2)], [3], [3, 3, 3]),
        # Nothing ran.
        (SHARED, [], [UNKNOWN_GPU] * 2),
        # A communicator on each GPU: as many kernels as communicators, in the order of their numbers.
        ([(SEND, "22", 1), (RECV, "22", 1), (SEND, "11", 1)], [0, 1], [1, 1, 0]),
        # Two on both.
        ([(ALL_REDUCE, "22", None), (ALL_REDUCE, "11", None)] * 2, [1, 0, 1, 0], [0, 0, 1, 1]),
        # Neither one each nor both on both.
        ([*[(ALL_REDUCE, "11", None)] * 2, *[(ALL_REDUCE, "22", None)] * 2], [1, 0, 0], [UNKNOWN_GPU] * 4),
    ],
)
def test_which_gpu_a_call_of_a_group_is_for(operations: list[Call], gpus: list[int], wanted: list[int]) -> None:
    """`gpus` in the order in which their kernels were launched."""
    assert devices(calls_of([operations]), [(gpu, 1) for gpu in gpus]) == [*wanted, None]


def devices(calls: pl.DataFrame, kernels: list[tuple[int, int]]) -> list[int | None]:
    """Of calls whose kernels are (GPU, unit), in order."""
    launched = pl.DataFrame(kernels, schema={"deviceId": pl.Int64, "unit": pl.Int64}, orient="row")
    launched = launched.with_row_index("called").with_columns(pl.col("called").cast(pl.Int64), start="called")
    return on_gpus(calls, launched, launched["unit"], pl.Series([1 << 24]))["device"].to_list()


@pytest.mark.parametrize(("text", "wanted"), [("ncclCommDestroy", [UNKNOWN_GPU] * 4), ("ncclCommSplit", [0, 0, 1, 1])])
def test_ranks_that_are_said_tell_who_sends_to_whom(text: str, wanted: list[int]) -> None:
    """By these ranks each GPU would send to itself; a split says those on its parent."""
    one_way = [(SEND, "c", 1), (SEND, "c", 1), (RECV, "c", 0), (RECV, "c", 0)]
    calls = calls_of([one_way], said=((text, 0, 1), (text, 1, 0)))
    assert devices(calls, [(1, 1), (0, 1)])[:4] == wanted


def test_where_a_communicator_is_shows_where_it_is_alone() -> None:
    """In the first group, two with two calls each on a GPU of its own; alone each is on its own."""
    group = [*[(ALL_REDUCE, "11", None)] * 2, *[(ALL_REDUCE, "22", None)] * 2]
    calls = calls_of([group, [(ALL_REDUCE, "11", None)], [(ALL_REDUCE, "22", None)]])
    found = devices(calls, [(0, 1), (0, 1), (1, 1), (1, 1), (0, 2), (1, 3)])
    assert [device for device in found if device is not None] == [0, 0, 1, 1, 0, 1]

"""Messages between ranks in whole translations."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import construct
import polars as pl
import pytest
from runs import reports_of

import nsys2prv
from nsys2prv.model import event_types as types
from nsys2prv.model import line_tags
from nsys2prv.model.event_type import EventType
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.match import match

REQUESTS = sorted((Path(__file__).parents[1] / "data" / "mpi-requests").glob("*.sqlite"))


def translated(reports: list[Path], folder: Path, **options: object) -> tuple[nsys2prv.Translation, pl.DataFrame]:
    """What was said, and the lines between ranks."""
    result = nsys2prv.translate(reports, folder / "trace", force=True, **options)  # type: ignore[arg-type]
    lines = nsys2prv.read_prv(result.prv).messages  # type: ignore[arg-type]
    return result, lines.filter(pl.col("tag") >= line_tags.NCCL_TAG)


# Messages and their bytes: Isend 524,288 each step and rank, Sendrecv 1,024, Send 8 and 64.
RUNS = [
    ("mpi-halo", "mpi", 51, 48 * 524288 + 3 * 8),
    pytest.param("mpi-cpu", "mpi", 54, 24 * 524288 + 24 * 1024 + 6 * 64, marks=pytest.mark.shared),
    pytest.param("mesh-tp-pp", "nccl", 64, 64 * 4194304, marks=pytest.mark.shared),
]


@pytest.mark.parametrize(("run", "family", "count", "size"), RUNS)
def test_every_message_is_drawn_once(tmp_path: Path, run: str, family: str, count: int, size: int) -> None:
    result, lines = translated(reports_of(run), tmp_path)
    assert (lines.height, lines["size"].sum()) == (count, size)
    assert dict(result.messages) == {family: count}
    assert family not in result.dropped
    assert not result.warnings
    # Tasks of one host, on one clock: nothing arrives before it is sent.
    assert (lines["received"] > lines["sent"]).all()


@pytest.mark.shared
def test_pipeline_neighbours_send_to_each_other(tmp_path: Path) -> None:
    """In a mesh of two by two, ranks 0 and 2, and 1 and 3, are the stages of a pipeline."""
    _, lines = translated(reports_of("mesh-tp-pp"), tmp_path)
    pairs = lines.group_by("task", "to_task").len().sort("task")
    assert pairs.rows() == [(1, 3, 16), (2, 4, 16), (3, 1, 16), (4, 2, 16)]


def test_messages_are_whole_while_another_worker_finds_them_again(
    mpi_halo: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[list[int]] = []
    once = match.match

    def twice(*given: Any) -> match.MatchedPartition:
        for _ in range(2):
            found = once(*given)
            tries.append([spill.path.stat().st_ino for spill in found.messages])
        return found

    monkeypatch.setattr(match, "match", twice)
    _, lines = translated(mpi_halo, tmp_path)
    assert lines.height == 51
    assert not {*tries[0]} & {*tries[1]}


def test_tags_above_those_of_lines_tell_messages_apart(tmp_path: Path) -> None:
    """Of five messages from rank 1 to rank 0 the first is received last: they have tags of their own."""
    reports = [tmp_path / path.name for path in REQUESTS[:2]]
    for report, source, first in zip(reports, REQUESTS, (1, 0), strict=False):
        report.write_bytes(source.read_bytes())
        with closing(sqlite3.connect(report)) as connection:
            rows = connection.execute("SELECT rowid FROM MPI_P2P_EVENTS WHERE tag = 11 ORDER BY start").fetchall()
            tags = [(2**31 - 1 - (n + first) % 5, *row) for n, row in enumerate(rows)]
            connection.executemany("UPDATE MPI_P2P_EVENTS SET tag = ? WHERE rowid = ?", tags)
            connection.commit()
    _, before = translated(REQUESTS[:2], tmp_path)
    _, lines = translated(reports, tmp_path)
    order = pl.col("tag") > line_tags.MPI_TAG + 5
    sent, received = before.filter(order).sort("sent").select("sent", "received")
    found = lines.filter(order).sort("sent")
    assert found.select("sent", "received", "tag").rows() == [
        (s, r, 2**31 - 1) for s, r in zip(sent, [*received[4:], *received[:4]], strict=True)
    ]


def test_the_bytes_do_not_depend_on_jobs_or_partitions(tmp_path: Path) -> None:
    reports = reports_of("mpi-halo")
    whole, _ = translated(reports, tmp_path)
    assert whole.prv is not None
    body = whole.prv.read_bytes()
    for jobs in (1, 2):
        parts, _ = translated(
            list(reversed(reports)),
            tmp_path,
            execution=nsys2prv.Execution(jobs=jobs, limits=Limits(match_rows=20)),
        )
        assert parts.prv is not None
        assert parts.prv.read_bytes() == body
        assert parts.messages == whole.messages


@pytest.mark.parametrize("blocking", [True, False])
def test_a_run_in_two_parts_gives_the_same_sequence_numbers_and_messages(blocking: bool, tmp_path: Path) -> None:
    """Reports of one process after the other: each rank's was cut at an instant of its own."""
    reports = reports_of("mpi-halo")
    if not blocking:
        reports = construct.nonblocking(reports, tmp_path)
    parts = construct.cut_in_two(reports, tmp_path)
    kinds = (types.MPI_SEQUENCE.number, types.MPI["collective"].number, types.WAITING.number, types.WAITED_FOR.number)
    found = []
    for inputs in (reports, parts):
        result, lines = translated(inputs, tmp_path)
        trace = nsys2prv.read_prv(result.prv)  # type: ignore[arg-type]
        events = trace.events.filter(pl.col("type").is_in(kinds)).sort(pl.all())
        found.append((events, lines.sort(pl.all()), dict(result.messages)))
    (events, lines, messages), (events_again, lines_again, messages_again) = found
    assert events.equals(events_again)
    assert lines.equals(lines_again)
    assert messages == messages_again


def test_messages_of_persistent_requests_and_from_anybody_are_matched(tmp_path: Path) -> None:
    """7 round a ring of three; 5 each to rank 0, which receives from anybody; 6 posted for anybody stay alone."""
    result, lines = translated(REQUESTS, tmp_path)
    sums = lines.group_by("task", "to_task", "size").len().sort("task", "to_task")
    ring = [(1, 2, 32768, 7), (2, 3, 32768, 7), (3, 1, 32768, 7)]
    assert sorted(sums.rows()) == sorted([*ring, (2, 1, 64, 5), (3, 1, 128, 5)])
    assert sorted(result.dropped["mpi"].values()) == [6, 6]


def test_ranks_without_their_peers_are_said_to_lack_them(tmp_path: Path) -> None:
    result, lines = translated(reports_of("mpi-halo")[:2], tmp_path)
    # Of 0 -> 1 -> 2 -> 3 -> 0 only 0 -> 1 is whole; rank 3 gets three more from rank 0.
    assert lines.height == 12
    assert sorted(n for why, n in result.dropped["mpi"].items() if "reports" in why) == [12, 15]
    assert "collective 1 of communicator MPI_COMM_WORLD: MPI_Allreduce on 2 of 4 ranks" in result.warnings


def test_only_lines_within_the_chosen_time_are_drawn(tmp_path: Path) -> None:
    _, lines = translated(reports_of("mpi-halo"), tmp_path)
    middle = int(lines["sent"].sort()[25])
    span = nsys2prv.Selection(time=(0, middle))
    cut, kept = translated(reports_of("mpi-halo"), tmp_path, selection=span)
    assert kept.height == lines.filter(pl.col("received") <= middle).height
    assert cut.dropped["mpi"]["outside the chosen time"] >= lines.height - kept.height


def test_bus_bandwidth_of_an_all_reduce_is_what_nccl_says(tmp_path: Path) -> None:
    """Four ranks: 2 * 3 / 4 of the bytes over the kernel's time."""
    result, _ = translated(reports_of("gpt-ddp"), tmp_path)
    trace = nsys2prv.read_prv(result.prv)  # type: ignore[arg-type]
    begins = trace.events.filter(pl.col("value") != 0)
    row = ["task", "thread", "time"]

    def values(kind: EventType) -> pl.DataFrame:
        return begins.filter(pl.col("type") == kind.number).select(*row, pl.col("value").alias(kind.key))

    kernels = trace.intervals(types.NCCL_KERNEL.number).rename({"start": "time"}).select(*row, "end")
    for kind in (types.NCCL_BYTES, types.NCCL_OPERATION, types.NCCL_BUS_BANDWIDTH):
        kernels = kernels.join(values(kind), on=row)
    reduces = kernels.filter(pl.col(types.NCCL_OPERATION.key) == 1)
    wanted = reduces[types.NCCL_BYTES.key] * 1.5 * 1e9 / (reduces["end"] - reduces["time"])
    assert reduces.height == 4 * 60
    assert ((reduces[types.NCCL_BUS_BANDWIDTH.key] - wanted).abs() <= 2).all(), "bytes a second, rounded twice"


def test_a_part_knows_the_processes_that_do_nothing_in_it(tmp_path: Path) -> None:
    """Rank 0 waits for the other three in its first all-reduce, and they have no calls yet."""
    part = nsys2prv.Selection(time=(200_000_000, 300_000_000))
    chosen = nsys2prv.RunOptions(ranks=frozenset((0, 2)))
    result, _ = translated(reports_of("gpt-ddp"), tmp_path, selection=part, options=chosen)
    assert (result.tasks, result.warnings) == (1, ())
    events = nsys2prv.read_prv(tmp_path / "trace.prv").events.filter(pl.col("value") != 0)
    values = dict(events.select("type", "value").rows())
    algorithm, bus = (values[k.number] for k in (types.NCCL_ALGORITHM_BANDWIDTH, types.NCCL_BUS_BANDWIDTH))
    assert bus == pytest.approx(1.5 * algorithm, abs=2)

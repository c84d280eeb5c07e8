"""Lines from cudaEventRecord to cudaStreamWaitEvent, and between the work on their streams."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import polars as pl
import pytest
from exports import MAIN, PROCESS, Drawn, export

import nsys2prv
from nsys2prv import Selection, Trace
from nsys2prv.families.device.event_waits import matched_waits
from nsys2prv.model.line_tags import EVENT_WAIT_TAG, STREAM_WAIT_TAG

REPORT = "gpt-ddp/gpt-ddp.0.0.sqlite"
FAMILIES = ("cuda_api", "kernels", "nccl", "memory", "event_waits")
WAITS = """
    SELECT record.start, wait.start
    FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION s
    JOIN CUPTI_ACTIVITY_KIND_CUDA_EVENT e USING (globalPid, eventSyncId)
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME record ON record.correlationId = e.correlationId
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME wait ON wait.correlationId = s.correlationId
    WHERE s.syncType = 2
"""


def lines(trace: Trace, tag: int) -> pl.DataFrame:
    return trace.messages.filter(pl.col("tag") == tag)


def test_host_lines_are_those_of_sql(translated, report):
    _, trace = translated(REPORT, *FAMILIES)
    with closing(sqlite3.connect(report(REPORT))) as connection:
        expected = connection.execute(WAITS).fetchall()
        first = connection.execute("SELECT min(start) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()[0]
    found = lines(trace, EVENT_WAIT_TAG).select("sent", "received").rows()
    assert len(found) == 248
    assert sorted(found) == sorted((a - first, b - first) for a, b in expected)


def test_what_ran_after_a_wait_began_after_what_it_waited_for(translated):
    _, trace = translated(REPORT, *FAMILIES)
    found = lines(trace, STREAM_WAIT_TAG)
    names = trace.names["THREAD"]
    ends = found.group_by("thread", "to_thread").len().rows()
    assert {(names[a - 1], names[b - 1]): n for a, b, n in ends} == {
        ("CUDA-D0.S7", "CUDA-D0.S16"): 56,
        ("CUDA-D0.S16", "CUDA-D0.S7"): 56,
    }
    assert (found["received"] >= found["sent"]).all()


@pytest.mark.parametrize("lacking", [("SYNCHRONIZATION", "CUDA_EVENT"), ("CUDA_EVENT",)])
def test_without_sync_ids_the_last_record_of_the_event_counts(lacking, translated, report, tmp_path):
    """Exports before nsys 2025.1, and before 2025.3 (from documentation)."""
    copy = tmp_path / "copy.sqlite"
    shutil.copyfile(report(REPORT), copy)
    copy.chmod(0o600)
    with closing(sqlite3.connect(copy)) as connection:
        for table in lacking:
            connection.execute(f"ALTER TABLE CUPTI_ACTIVITY_KIND_{table} DROP COLUMN eventSyncId")
        connection.commit()
    result = nsys2prv.translate(copy, tmp_path / "out", selection=Selection(FAMILIES))
    assert result.prv is not None
    _, trace = translated(REPORT, *FAMILIES)
    columns = ["sent", "received", "tag"]
    events = pl.col("tag").is_in([EVENT_WAIT_TAG, STREAM_WAIT_TAG])
    older = nsys2prv.read_prv(result.prv).messages.filter(events).select(columns).sort(columns)
    assert older.equals(trace.messages.filter(events).select(columns).sort(columns))


def calls(*rows: tuple[int, int, int, int | None], **more: object) -> pl.DataFrame:
    """Of records or waits, each (called, process, eventId, eventSyncId)."""
    keys = pl.DataFrame(rows, schema=["called", "globalPid", "eventId", "eventSyncId"], orient="row")
    stream = dict.fromkeys(["caller", "deviceId", "contextId", "streamId"], 0)
    return keys.cast(pl.Int64).with_columns(pl.lit(v).alias(k) for k, v in (stream | more).items())


def test_a_wait_is_for_the_record_of_its_number_or_the_last_one_before():
    """What later records of the event, and other processes with such an event, do not change."""
    records = calls((10, 1, 5, 100), (40, 1, 5, 101), (45, 2, 5, 100), (60, 1, 6, 102), done=0, from_place=0)
    waits = calls((20, 1, 5, None), (50, 1, 5, None), (70, 1, 5, 100), (55, 1, 6, 102))
    without_record = calls((5, 1, 5, None), (50, 1, 7, None), (50, 1, 5, 103))
    found = matched_waits(pl.concat([without_record, waits]), records).select("called", "called_record")
    assert sorted(found.rows()) == [(20, 10), (50, 40), (55, 60), (70, 10)]


def test_a_wait_holds_until_all_that_was_launched_before_the_record_is_done(tmp_path):
    """The first of two kernels lasts longer, as in branches of a graph; another stream's lasts longest."""
    launches = [(1, 0, 900, 9), (2, 10, 100, 7), (3, 20, 50, 7), (6, 110, 120, 8), (7, 130, 140, 8)]
    stream = "deviceId contextId streamId correlationId globalPid"
    report = export(
        tmp_path / "r.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start end globalTid correlationId nameId",
            [(n, n + 1, MAIN, n, "call") for n in range(1, 8)],
        ),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            f"start end {stream} shortName",
            [(start, end, 0, 1, on, n, PROCESS, "k") for n, start, end, on in reversed(launches)],
        ),
        CUPTI_ACTIVITY_KIND_CUDA_EVENT=(f"{stream} eventId eventSyncId", [(0, 1, 7, 4, PROCESS, 3, 1)]),
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=(
            f"start end {stream} syncType eventId eventSyncId",
            [(5, 6, 0, 1, 8, 5, PROCESS, 2, 3, 1)],
        ),
    )
    drawn = Drawn(report, "cuda_api", "kernels", "event_waits")
    found = lines(drawn.trace, STREAM_WAIT_TAG).select("sent", "received").rows()
    assert [(sent + drawn.origin, received + drawn.origin) for sent, received in found] == [(100, 110)]


def test_waits_that_name_no_event_are_no_loss(translated):
    result, trace = translated("mpi-halo", *FAMILIES)
    assert lines(trace, EVENT_WAIT_TAG).is_empty()
    assert "event_waits" not in result.dropped


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("SYNCHRONIZATION", "waits for an event whose call is not in the report"),
        ("CUDA_EVENT", "waits for an event whose record is not in the report"),
    ],
)
def test_a_wait_or_record_without_its_call_is_named(table, why, report, tmp_path):
    """The wait itself, or the record that it waits for, names no call."""
    copy = tmp_path / "copy.sqlite"
    shutil.copyfile(report(REPORT), copy)
    copy.chmod(0o600)
    with closing(sqlite3.connect(copy)) as connection:
        waited = "SELECT eventSyncId FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION WHERE syncType = 2 LIMIT 1"
        connection.execute(f"UPDATE CUPTI_ACTIVITY_KIND_{table} SET correlationId = 0 WHERE eventSyncId = ({waited})")
        connection.commit()
    result = nsys2prv.translate(copy, tmp_path / "out", selection=Selection(FAMILIES))
    assert {str(why): count for why, count in result.dropped["event_waits"].items()} == {why: 1}


def test_lines_whose_rows_are_not_drawn_are_counted(translated):
    """Without calls threads have no row, without NCCL's kernels the second stream has none."""
    result, trace = translated(REPORT, "kernels", "event_waits")
    assert trace.messages.is_empty()
    assert sum(result.dropped["event_waits"].values()) == 248 + 112

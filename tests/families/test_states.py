"""State records of host threads and streams."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from itertools import pairwise

import oracle
import polars as pl
import pytest

from nsys2prv import Selection, Trace, read_prv
from nsys2prv.commands.translate import translate
from nsys2prv.model import states

DEFAULT = Selection().families


def lasting(trace: Trace, pattern: str) -> dict[str, int]:
    """ns in each state on the rows whose label matches."""
    rows = [n for n, name in enumerate(trace.names["THREAD"], start=1) if pattern in name]
    flat = [(task, thread) for task, (count, _) in enumerate(trace.header.tasks, 1) for thread in range(1, count + 1)]
    chosen = pl.DataFrame([flat[n - 1] for n in rows], schema=["task", "thread"], orient="row")
    spans = trace.states.join(chosen, on=["task", "thread"], how="semi")
    sums = spans.group_by("state").agg((pl.col("end") - pl.col("begin")).sum())
    return {states.STATES[state]: ns for state, ns in sums.rows()}


def in_time(report, query: str) -> int:
    """ns that the intervals of a query cover."""
    with closing(sqlite3.connect(report)) as connection:
        spans = connection.execute(query).fetchall()
    covered, reach = 0, min(a for a, _ in spans)
    for start, end in sorted(spans):
        covered += max(0, end - max(start, reach))
        reach = max(reach, end)
    return covered


def test_states_of_one_row_follow_each_other(translated):
    _, trace = translated("gpt-ddp", *DEFAULT, "states")
    assert trace.states.height
    for _, rows in trace.states.sort("begin").group_by("task", "thread"):
        spans = rows.select("begin", "end", "state").rows()
        assert all(b - a >= 1 for a, b, _ in spans)
        assert all(x[1] < y[0] or (x[1] == y[0] and x[2] != y[2]) for x, y in pairwise(spans))


def test_streams_are_in_the_states_of_their_work(translated, report):
    path = report("gpt-ddp/gpt-ddp.0.0.sqlite")
    _, trace = translated("gpt-ddp/gpt-ddp.0.0.sqlite", *DEFAULT, "states")
    kernels = (
        "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName WHERE value {} 'nccl%'"
    )
    assert lasting(trace, "CUDA-D0.S7")["Running"] == in_time(path, kernels.format("NOT LIKE"))
    in_nccl = sum(lasting(trace, row)["Communication (MPI, NCCL)"] for row in ("CUDA-D0.S7", "CUDA-D0.S16"))
    with closing(sqlite3.connect(path)) as connection:
        total = connection.execute(f"SELECT sum(end - start) FROM ({kernels.format('LIKE')})").fetchone()[0]
    assert in_nccl == total
    copies = (
        "SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY UNION ALL SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMSET"
    )
    assert lasting(trace, "CUDA-D0.S7")["Memory transfer"] == in_time(path, copies)


def test_mpi_comes_before_the_os_calls_that_it_makes(translated, report):
    path = report("mpi-halo/mpi-halo.0.sqlite")
    _, trace = translated("mpi-halo/mpi-halo.0.sqlite", *DEFAULT, "states")
    tables = ("P2P", "START_WAIT", "COLLECTIVES", "OTHER")
    calls = " UNION ALL ".join(f"SELECT start, end FROM MPI_{t}_EVENTS" for t in tables)
    threads = [name for name in trace.names["THREAD"] if not name.startswith(("CUDA", "Metrics"))]
    in_mpi = sum(lasting(trace, name).get("Communication (MPI, NCCL)", 0) for name in threads)
    assert in_mpi == in_time(path, calls)


def test_waiting_calls_are_synchronisation(translated, report):
    path = report("single/saxpy.sqlite")
    _, trace = translated("single/saxpy.sqlite", *DEFAULT, "states")
    calls = "SELECT r.start, r.end FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds ON id = nameId WHERE value {}"
    main = lasting(trace, trace.names["THREAD"][0])
    waits = in_time(path, calls.format("LIKE '%Synchronize%'"))
    assert main["CUDA synchronization"] >= waits > 0
    every = in_time(path, calls.format("NOT NULL"))
    assert main["CUDA call"] + main["CUDA synchronization"] == every


def test_a_wait_without_its_call_is_a_state_of_the_main_thread(report, tmp_path):
    copy = tmp_path / "copy.sqlite"
    shutil.copyfile(report("single/graph-node.sqlite"), copy)
    with closing(sqlite3.connect(copy)) as connection:
        connection.executescript("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME")
    result = translate(copy, tmp_path / "out", selection=Selection((*DEFAULT, "states")))
    assert result.prv is not None
    trace = read_prv(result.prv)
    kinds = f"syncType IN (1, 3, 4) OR {oracle.STREAM_SYNCHRONIZE}"
    waits = f"SELECT start, end FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION WHERE {kinds}"
    assert lasting(trace, trace.names["THREAD"][0])["CUDA synchronization"] == in_time(copy, waits) > 0


def named(trace: Trace) -> pl.DataFrame:
    """States of a trace of one task with the label of their row."""
    labels = dict(enumerate(trace.names["THREAD"], start=1))
    return trace.states.select(pl.col("thread").replace_strict(labels), "begin", "end", "state")


def test_cut_states_fill_the_same_time(translated):
    name = "gpt-ddp/gpt-ddp.0.0.sqlite"
    _, whole = translated(name, *DEFAULT, "states")
    low, high = 100_000_000, 150_000_000
    selection = Selection((*DEFAULT, "states"), time=(low, high))
    _, part = translated(name, selection=selection)
    shown = named(whole).filter(
        pl.col("end") > low, pl.col("begin") < high, pl.col("thread").is_in(part.names["THREAD"])
    )
    cut = shown.with_columns(pl.col("begin").clip(low) - low, pl.col("end").clip(upper_bound=high) - low)
    assert sorted(named(part).rows()) == sorted(cut.rows())


@pytest.mark.parametrize(("families", "expected"), [(DEFAULT, False), ((*DEFAULT, "states"), True)])
def test_states_are_named_only_where_there_are_any(report, tmp_path, families, expected):
    translate(report("single/saxpy.sqlite"), tmp_path / "out", selection=Selection(families))
    pcf = (tmp_path / "out.pcf").read_text()
    # The leading blank is Paraver's to trim: other tools take a bare keyword for another tracer's mark.
    assert ("\n STATES\n" in pcf) is expected
    assert "\nSTATES\n" not in pcf

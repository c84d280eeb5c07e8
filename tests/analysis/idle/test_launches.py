"""Launches, queues, bandwidths and sums of memory operations of small runs, and against plain SQL."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from analysis_cases import Analysed, Find, run_of, sql, work_of

from nsys2prv.analysis.communication.nccl_bandwidths import nccl_bandwidths
from nsys2prv.analysis.frames import CALLS as CALLS_SCHEMA
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.graph.streams import streams_of
from nsys2prv.analysis.idle.launches import launches, queues
from nsys2prv.analysis.sums_by_name import memory_sums, summary
from nsys2prv.intervals.spans import Spans, one_span

ALL = one_span(0, 100)
# device, start, end, kind, launched.
WORK = [
    (0, 10, 20, "kernel", 0),  # waits 10
    (0, 20, 50, "kernel", 4),  # waits 16
    (0, 50, 60, "kernel", 4),  # waits 46: the second one of the same call
    (0, 60, 70, "kernel", None),  # no call in the report
    (0, 70, 80, "copy", 30),  # waits 40: no launch, but in the queue
]
CALLS = [(0, 0, 0, 3, "cuda", "cudaLaunchKernel"), (0, 0, 4, 10, "cuda", "cudaGraphLaunch")]


def small() -> Run:
    work = work_of(WORK).with_columns(caller_row=pl.when(pl.col("launched").is_not_null()).then(0))
    return run_of(work, CALLS, ranks=1)._replace(row_labels=("CUDA-D0.S7",))


def test_launches_by_name_and_over_all() -> None:
    table = launches(small(), ALL)
    keys = ["rank", "name", "count", "call_ns", "kernel_ns"]
    assert table.select(keys).rows() == [
        (None, None, 3, 9, 50),
        (None, "kernel", 3, 9, 50),
        (0, None, 3, 9, 50),
        (0, "kernel", 3, 9, 50),
    ]
    waits = [10, 16, 46]
    expected = [float(np.percentile(waits, p)) for p in (50, 90, 99)]
    assert table.row(0, named=True)["wait_p50_ns"] == 16
    assert [table[f"wait_p{p}_ns"][0] for p in (50, 90, 99)] == pytest.approx(expected)
    # The call of 6 ns is shared by two kernels: 3, 3, 3.
    assert (table["call_p50_ns"][0], table["kernel_p50_ns"][0]) == (3, 10)


def test_only_kernels_that_start_in_the_window_count() -> None:
    spans = Spans(np.array([15, 55]), np.array([25, 58]))
    assert launches(small(), spans)["kernel_ns"].to_list() == [30] * 4


def test_a_call_of_another_thread_at_the_same_time_did_not_launch() -> None:
    run = small()
    other = pl.DataFrame([(0, 1, 0, 90, "cuda", "cudaStreamSynchronize")], schema=CALLS_SCHEMA, orient="row")
    table = launches(run._replace(calls=pl.concat([other, run.calls])), ALL)
    assert table["call_ns"].to_list() == [9] * 4


def test_queue_of_a_stream() -> None:
    """Waiting: 1 in [0, 4), 3 in [4, 10), 2 in [10, 20), 1 in [20, 30), 2 in [30, 50), 1 in [50, 70)."""
    assert queues(small(), ALL).rows() == [(0, "CUDA-D0.S7", 4, 3, (10 + 16 + 46 + 40) / 100)]
    assert queues(small(), one_span(30, 50)).rows() == [(0, "CUDA-D0.S7", 2, 2, 2.0)]


def test_a_queue_between_the_spans_of_a_window_is_in_none() -> None:
    """One activity waits in each span, and both do between them."""
    run = run_of(work_of([(0, 60, 70, "kernel", 10), (0, 90, 95, "kernel", 40)]), ranks=1)
    window = Spans(np.array([0, 70]), np.array([30, 100]))
    assert queues(run, window)["longest"].to_list() == [1]
    assert queues(run, ALL)["longest"].to_list() == [2]


def test_work_that_starts_as_other_work_is_launched_does_not_wait_with_it() -> None:
    run = run_of(work_of([(0, 10, 20, "kernel", 0), (0, 20, 30, "kernel", 10)]), ranks=1)
    assert queues(run, ALL)["longest"].to_list() == [1]


@pytest.mark.parametrize(("first", "waiting"), [((0, 0), [2]), ((0, 1), [1, 1])], ids=["lanes", "contexts"])
def test_streams_of_two_contexts_have_queues_of_their_own_and_lanes_of_a_stream_have_one(
    first: tuple[int, int], waiting: list[int]
) -> None:
    """A context's label is that of the other: both have a stream 7 on one GPU."""
    work = work_of([(0, 10, 20, "kernel", 0), (0, 10, 30, "kernel", 0)]).with_columns(row=pl.Series([0, 1]))
    run = run_of(work, ranks=1)._replace(row_labels=("CUDA-D0.S7",) * 2, first_lanes=first)
    found = queues(run, ALL)
    assert found["stream"].to_list() == ["CUDA-D0.S7"] * len(waiting)
    assert found["longest"].to_list() == found["activities"].to_list() == waiting
    assert streams_of(run).with_work.height == len(waiting)


def test_nccl_bandwidths_are_by_the_formulas_of_nccl_tests() -> None:
    """Of 4 ranks: an all-reduce counts 2 (n - 1) / n of its bytes, an all-gather n parts and (n - 1) of them."""
    work = work_of([(0, 0, 10, "nccl"), (0, 10, 40, "nccl"), (0, 40, 50, "nccl"), (0, 90, 110, "nccl")])
    named = work.with_columns(
        pl.Series("bytes", [400, 200, 100, 100]),
        pl.Series("communicator", ["a"] * 4).cast(pl.Categorical),
        pl.Series("operation", ["AllReduce", "AllReduce", "AllGather", "AllReduce"]).cast(pl.Categorical),
    )
    run = run_of(named, ranks=1)._replace(communicator_sizes={"a": 4})
    table = nccl_bandwidths(run, ALL)
    keys = ["operation", "ranks", "kernels", "bytes", "ns"]
    assert table.select(keys).rows() == [("AllGather", 4, 1, 100, 10), ("AllReduce", 4, 2, 600, 40)]
    assert table["algorithm_gb_s"].to_list() == pytest.approx([40, 15])
    assert table["bus_gb_s"].to_list() == pytest.approx([30, 22.5])
    # The median of 40 GB/s and 20 / 3 GB/s, times 2 * 3 / 4.
    assert table["bus_p50_gb_s"].to_list() == pytest.approx([30, 35])


def test_nccl_bandwidths_are_exact_to_the_last_digit() -> None:
    """Of 3 ranks, with lengths that leave no whole number of bytes a second."""
    work = work_of([(0, 0, 7, "nccl"), (0, 10, 23, "nccl")]).with_columns(
        pl.Series("bytes", [1000, 77]),
        pl.Series("communicator", ["a"] * 2).cast(pl.Categorical),
        pl.Series("operation", ["AllReduce", "AllGather"]).cast(pl.Categorical),
    )
    table = nccl_bandwidths(run_of(work, ranks=1)._replace(communicator_sizes={"a": 3}), ALL)
    assert table["algorithm_gb_s"].to_list() == pytest.approx([77 / 13 * 3, 1000 / 7], rel=1e-15)
    assert table["bus_gb_s"].to_list() == pytest.approx([77 / 13 * 2, 1000 / 7 * 2 * 2 / 3], rel=1e-15)


def test_memory_operations_by_kinds_of_memory() -> None:
    frame = pl.DataFrame(
        {"rank": [0, 0, 0], "name": ["c", "c", "m"], "memory": ["Pageable to Device", "Pinned to Device", "Device"],
         "start": [0, 10, 20], "end": [10, 15, 30], "ns": [10, 5, 5], "bytes": [100, 200, 50], "instant": [False] * 3,
         "whole_ns": [10, 5, 10]}
    )  # fmt: skip
    rows = memory_sums(frame, ["name", "memory"]).filter(pl.col("rank") == 0).sort("memory")
    assert rows.select("name", "memory", "total_ns", "bytes", "gb_s").rows() == [
        ("m", "Device", 5, 25, 5.0),
        ("c", "Pageable to Device", 10, 100, 10.0),
        ("c", "Pinned to Device", 5, 200, 40.0),
    ]


def test_bytes_above_all_numbers_of_64_bits_are_none() -> None:
    """Each copy of them is one that a damaged report may have."""
    copy = {"rank": 0, "name": "HtoD", "bytes": 2**62, "ns": 10, "whole_ns": 10, "instant": False}
    table = memory_sums(pl.DataFrame([copy] * 3), ["name"])
    assert set(table["bytes"]) == {None}
    assert table["gb_s"].to_list() == pytest.approx([2**62 / 10] * 2)


def test_sums_have_percentiles() -> None:
    lengths = [1, 2, 3, 4, 100]
    table = summary(pl.DataFrame({"name": ["a"] * 5, "start": [0] * 5, "end": lengths}), ["name"])
    expected = [float(np.percentile(lengths, p)) for p in (50, 90, 99)]
    assert table.select("med_ns", "p90_ns", "p99_ns").row(0) == pytest.approx(expected)


def test_launches_and_kinds_of_memory_agree_with_sql(analysed: Analysed, report: Find) -> None:
    found = analysed("single/saxpy.sqlite")
    path = report("single/saxpy.sqlite")
    query = """SELECT k.start - r.start, r.end - r.start, k.end - k.start FROM CUPTI_ACTIVITY_KIND_KERNEL k
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId)"""
    waits, calls, kernels = (np.array(column) for column in zip(*sql(path, query), strict=True))
    over_all = found.launches.row(0, named=True)
    assert [over_all[f"wait_p{p}_ns"] for p in (50, 90, 99)] == pytest.approx(np.percentile(waits, (50, 90, 99)))
    sums = (over_all["count"], over_all["call_ns"], over_all["kernel_ns"])
    assert sums == (len(waits), calls.sum(), kernels.sum())
    moved = found.memory_kinds.filter(pl.col("rank") == 0).select("memory", "instances", "bytes").rows()
    copies = "SELECT srcKind, count(*), sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY 1 ORDER BY 1"
    kinds = {0: "Pageable to Device", 2: "Device to Pageable"}
    assert moved[:2] == [(kinds[kind], *rest) for kind, *rest in sql(path, copies)]
    assert moved[2][:2] == ("Device", 20)

"""NVTX ranges projected on the device, by thread (NVIDIA's rule) and by process."""

from __future__ import annotations

import csv

import numpy as np
import polars as pl
import pytest
from exports import PID, PROCESS, Drawn, export, tid
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys2prv import Trace
from nsys2prv.families.nvtx.projection import project
from nsys2prv.model import event_types as types
from nsys2prv.model.event_type import TypeBlock

PLACE = ["task", "thread", "start", "end"]


def projected(trace: Trace, block: TypeBlock) -> pl.DataFrame:
    """Projected ranges of all domains with label, kernels, length (ns)."""
    kinds = [k for k in trace.types if block.number <= k < block.number + block.size]
    kernels = trace.intervals(types.RANGE_KERNELS.number).select(*PLACE, kernels="value").unique()
    ranges = pl.concat(trace.intervals(k).select(*PLACE, "label", kind=pl.lit(k)) for k in kinds)
    return ranges.join(kernels, on=PLACE, how="left").with_columns(length=pl.col("end") - pl.col("start"))


def test_thread_projection_equals_nvidias(report, translated):
    oracle = report("gpt-ddp-oracle") / "nvtx_gpu_proj_sum" / "all_stats.csv"
    expected = {
        row["Text"]: tuple(int(float(row[c])) for c in ("Count", "Sum", "Min", "Max"))
        for row in csv.DictReader(oracle.open())
    }
    _, trace = translated("gpt-ddp/gpt-ddp.0.0.sqlite", "projection_thread")
    length = pl.col("length")
    found = projected(trace, types.NVTX_BY_THREAD)
    # None of these ranges launched on two streams: what is drawn is what NVIDIA sums.
    sums = found.group_by("label").agg(pl.len(), length.sum(), length.min().alias("min"), length.max().alias("max"))
    assert {label: tuple(row) for label, *row in sums.rows()} == expected


def test_backward_holds_what_other_threads_launched(translated):
    _, trace = translated("gpt-ddp/gpt-ddp.0.0.sqlite", "projection", "projection_thread")
    by_process = projected(trace, types.NVTX_BY_PROCESS).filter(label="backward").sort("start")
    names = [trace.names["THREAD"][t - 1] for t in by_process["thread"][:2]]
    assert list(zip(names, by_process["kernels"][:2], strict=True)) == [("CUDA-D0.S7", 228), ("CUDA-D0.S16", 14)]
    assert by_process["end"][:2].max() - by_process["start"][0] == 473_272_392
    by_thread = projected(trace, types.NVTX_BY_THREAD).filter(label="backward").sort("start")
    assert by_thread.select("kernels", "length").row(0) == (1, 736)


def test_ranges_nest_on_their_streams(translated):
    _, trace = translated("gpt-ddp/gpt-ddp.0.0.sqlite", "projection", "projection_thread")
    # No lane was needed: the rows are the streams.
    assert trace.names["THREAD"] == ("CUDA-D0.S7", "CUDA-D0.S16")
    found = projected(trace, types.NVTX_BY_PROCESS).filter(pl.col("thread") == 1)
    forward = found.filter(label="forward").row(0, named=True)
    inner = found.filter(pl.col("start") >= forward["start"], pl.col("end") <= forward["end"])
    assert dict(inner.group_by("label").len().iter_rows()) == {"forward": 1, "attention": 4, "mlp": 4}


def test_domains_have_the_numbers_of_the_host(translated):
    _, trace = translated("gpt-ddp/gpt-ddp.0.0.sqlite", "nvtx", "projection")
    for n, name in enumerate(("default", "CCCL")):
        assert trace.types[types.NVTX_DOMAIN.number + n * types.NVTX_DOMAIN.step] == f"NVTX {name}"
        assert trace.types[types.NVTX_BY_PROCESS.number + n] == f"NVTX {name} on the device"


def test_graph_executions_are_work_without_kernels(translated):
    _, trace = translated("single/graph-graph.sqlite", "projection")
    found = projected(trace, types.NVTX_BY_PROCESS)
    assert found.height == 20
    assert found["kernels"].null_count() == 20


def test_a_range_that_ends_on_another_thread_is_no_threads_own(tmp_path):
    """NVIDIA's rule leaves it out; its process launched what it launched all the same."""
    own, other = tid(PID), tid(PID + 1)
    ends = {"on its own": own, "unknown": None, "elsewhere": other}
    report = export(
        tmp_path / "r.sqlite",
        NVTX_EVENTS=(
            "start end eventType globalTid endGlobalTid text",
            [(10, 90, 60, own, end, text) for text, end in ends.items()],
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid correlationId nameId", [(20, 25, own, 1, "launch")]),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            "start end globalPid deviceId contextId streamId correlationId shortName",
            [(30, 40, PROCESS, 0, 1, 7, 1, "k")],
        ),
    )
    trace = Drawn(report, "projection", "projection_thread").trace
    by_process, by_thread = (
        set(trace.intervals(kind.number)["label"]) for kind in (types.RANGE_BY_PROCESS, types.RANGE_BY_THREAD)
    )
    assert by_process == {*ends}
    assert by_thread == {"on its own", "unknown"}


MAIN, OTHER = 7 << 24 | 7, 7 << 24 | 9
RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12), st.sampled_from([MAIN, OTHER])), max_size=12)
CALLS = st.lists(st.tuples(st.integers(0, 45), st.sampled_from([MAIN, OTHER]), st.integers(0, 1)), max_size=12)


@pytest.mark.parametrize("by", ["process", "thread"])
@settings(max_examples=200, deadline=None)
@given(ranges=RANGES, calls=CALLS)
def test_projection_against_a_slow_version(by, ranges, calls):
    frame = pl.DataFrame(
        [(s, s + n, t) for s, n, t in ranges],
        schema={"start": pl.Int64, "end": pl.Int64, "globalTid": pl.Int64},
        orient="row",
    )
    # The k-th call's work runs from 100 + k to 100 + k + 5.
    work = pl.DataFrame(
        [(100 + k, 105 + k, place, caller, called, 1) for k, (called, caller, place) in enumerate(calls)],
        schema={
            "start": pl.Int64,
            "end": pl.Int64,
            "place": pl.UInt32,
            "caller": pl.Int64,
            "called": pl.Int64,
            "kernels": pl.Int64,
        },
        orient="row",
    )
    threads = [t for _, _, t in ranges]
    expected = []
    for n, (start, length, thread) in enumerate(ranges):
        if by == "process" and thread == OTHER and MAIN in threads:
            continue
        for place in (0, 1):
            own = [
                k
                for k, (called, caller, on) in enumerate(calls)
                if start <= called < start + length and on == place and (by == "process" or caller == thread)
            ]
            if own:
                expected.append((n, place, 100 + min(own), 105 + max(own), len(own)))
    assert sorted(project(frame, work, by).rows()) == expected


def test_every_range_of_a_deep_stack_holds_the_innermost_work():
    depth, calls = 100, 100_000
    frame = pl.DataFrame({"start": np.arange(depth), "end": 10**9 - np.arange(depth), "globalTid": [MAIN] * depth})
    called = np.arange(calls) + depth
    work = pl.DataFrame(
        {
            "start": called + 1000,
            "end": called + 1001,
            "place": np.zeros(calls, dtype=np.uint32),
            "caller": [MAIN] * calls,
            "called": called,
            "kernels": np.ones(calls, dtype=np.int64),
        }
    )
    assert project(frame, work, "thread")["kernels"].to_list() == [calls] * depth

"""Overlap of communication and compute: by hand, and against NVIDIA's recipe."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from analysis_cases import SHARED, Analysed, Find, run_of, sql, work_of
from exports import PROCESS, export

from nsys2prv.analysis.communication.overlap import overlap
from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.interval_frames import covered, parts_by
from nsys2prv.commands.analyze import analyze
from nsys2prv.intervals.spans import Spans, one_span, time_in


def test_what_computes_on_the_same_device_overlaps() -> None:
    work = work_of([(0, 0, 50, "nccl"), (0, 40, 60, "kernel"), (0, 0, 10, "copy"), (1, 0, 50, "kernel")])
    rows = overlap(run_of(work), work, one_span(0, 100)).rows()
    assert rows == [(0, None, "all", 1, None, 50, 10, 40), (0, None, "nccl", 1, None, 50, 10, 40)]


def test_overlapping_collectives_count_once_together() -> None:
    work = work_of([(0, 0, 50, "nccl"), (0, 20, 70, "nccl")])
    assert overlap(run_of(work), work, one_span(0, 100)).row(0)[3:] == (2, None, 70, 0, 70)


def test_without_nccl_calls_the_operation_is_that_of_the_kernels_name(tmp_path: Path) -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    columns = "start end deviceId streamId correlationId globalPid shortName demangledName"
    report = export(
        tmp_path / "nccl.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=(columns, [(0, 50, 0, 7, 1, PROCESS, name, name)])
    )
    found = analyze(report)
    assert found.overlap.select("communicator", "operation", "bytes").row(1) == (None, "AllReduce", None)
    assert "NCCL calls with payloads (communicators and bytes)" in found.missing


def test_time_in_counts_what_is_covered_before() -> None:
    spans = Spans(np.array([10, 30]), np.array([20, 40]))
    assert time_in(spans, np.array([0, 10, 15, 25, 40, 99])).tolist() == [0, 0, 5, 10, 20, 20]
    assert time_in(Spans(np.array([], np.int64), np.array([], np.int64)), np.array([5])).tolist() == [0]


def overlap_of_each(work: pl.DataFrame) -> pl.DataFrame:
    """WORK's NCCL kernels with `overlapped`, the time (ns) that others compute on their device meanwhile."""
    parts = [work.filter(pl.col("kind") == NCCL).clear().with_columns(overlapped=pl.lit(None, pl.Int64))]
    for own in parts_by(work, "device").values():
        busy = covered(own.filter(pl.col("kind").is_in(USEFUL_KINDS)))
        kernels = own.filter(pl.col("kind") == NCCL)
        within = time_in(busy, kernels["end"].to_numpy()) - time_in(busy, kernels["start"].to_numpy())
        parts.append(kernels.with_columns(overlapped=pl.Series(within, dtype=pl.Int64)))
    return pl.concat(parts)


@pytest.mark.shared
def test_each_kernel_of_gpt_ddp_overlaps_as_the_recipe_says(analysed: Analysed, report: Find) -> None:
    """nccl_gpu_overlap_trace of rank 0: per NCCL kernel the share of it that compute kernels overlap, in %."""
    report("gpt-ddp-oracle")
    with (SHARED / "gpt-ddp-oracle/nccl_gpu_overlap_trace/rank_trace.csv").open() as file:
        said = {(int(r["Start"]), int(r["End"])): float(r["Compute Overlap"]) for r in csv.DictReader(file)
                if r["Name"].startswith("nccl")}  # fmt: skip
    run = analysed("gpt-ddp").run
    of_rank = overlap_of_each(run.work).filter(pl.col("task") == 0)
    first = sql(report("gpt-ddp/gpt-ddp.0.0.sqlite"), "SELECT min(start) FROM CUPTI_ACTIVITY_KIND_MEMCPY")[0][0]
    shift = first - run.work.filter(pl.col("task") == 0)["start"].min()  # type: ignore[operator]
    found = {
        (s + shift, e + shift): 100 * o / (e - s) for s, e, o in of_rank.select("start", "end", "overlapped").rows()
    }
    assert found.keys() == said.keys()
    assert len(said) == 68
    assert max(abs(found[k] - said[k]) for k in said) <= 0.051


def test_grouped_overlap_of_gpt_ddp_is_the_recipes(analysed: Analysed, report: Find) -> None:
    """nccl_gpu_overlap_trace, grouped: an all-reduce is overlapped to 2.1 % of its time."""
    report("gpt-ddp-oracle")
    table = analysed("gpt-ddp").overlap.filter(pl.col("rank") == 0)
    times = table.select("operation", "communication_ns", "overlapped_ns").rows()
    shares = {operation: round(100 * part / total, 1) for operation, total, part in times}
    assert shares == {"all": 2.1, "AllGather": 0.0, "AllReduce": 2.1, "Broadcast": 0.0}


@pytest.mark.parametrize("run", ["gpt-ddp", "mesh-tp-pp"])
def test_overlap_by_rank_is_that_of_a_sweep(analysed: Analysed, report: Find, run: str) -> None:
    """A sweep over begins and ends of each report, with nothing but the standard library."""
    every = analysed(run).overlap.filter(pl.col("operation") == "all")
    for path, row in zip(sorted(report(run).glob("*.sqlite")), every.rows(), strict=True):
        rows = sql(
            path,
            """SELECT value LIKE 'nccl%', start, "end"
            FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName""",
        )
        changes: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for nccl, start, end in rows:
            changes[start][nccl] += 1
            changes[end][nccl] -= 1
        open_now, last, communicating, both = [0, 0], 0, 0, 0
        for time in sorted(changes):
            communicating += (time - last) * (open_now[1] > 0)
            both += (time - last) * (open_now[0] > 0 and open_now[1] > 0)
            open_now = [a + b for a, b in zip(open_now, changes[time], strict=True)]
            last = time
        assert row[5:] == (communicating, both, communicating - both)

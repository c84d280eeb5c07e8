"""Results of NVIDIA's recipes on three runs (see docs/analysis.md, "Against NVIDIA's recipes").

Recipes name a rank by the order of the files in which they found something, so that processes are compared. A session's
times count from its begin, but those of paces and maps from the begin of the first session.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import drawn
import numpy as np
import polars as pl
import pytest
from runs import ARCHIVES, unpacked

import nsys2prv
from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.interval_frames import covered
from nsys2prv.analysis.question import Question
from nsys2prv.families.registry import DEFAULT_FAMILIES
from nsys2prv.intervals.spans import Spans, intersection, one_span, time_in, union
from nsys2prv.run.run_options import RunOptions

pytestmark = pytest.mark.shared

# Recipes print one decimal.
ROUNDING = 0.0501
MEMORY = {
    "CUDA_MEMSET": "Memset",
    "CUDA_MEMCPY_KIND_DTOH": "Device-to-Host",
    "CUDA_MEMCPY_KIND_HTOD": "Host-to-Device",
    "CUDA_MEMCPY_KIND_DTOD": "Device-to-Device",
}
SUMMARY = {
    "Count": "instances", "Sum": "total_ns", "Min": "min_ns", "Max": "max_ns",
    "Mean": "avg_ns", "Median": "med_ns", "Std": "stddev_ns",
}  # fmt: skip


class Recipes:
    """One run: what the recipes say of it, our analysis of all its time, and its trace."""

    def __init__(self, run: str, folder: Path) -> None:
        self.folder = unpacked(run)
        self._made = folder / run
        self.reports = sorted(self.folder.glob("*.sqlite"))
        starts = [sql(report, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0][0] for report in self.reports]
        self.begins = [int(start) - min(starts) for start in starts]

    def said(self, name: str) -> pl.DataFrame:
        """A recipe's result; the test is skipped where the run has none."""
        path = self.folder / "oracle" / f"{name}.csv"
        if not path.exists():
            pytest.skip(f"no {name} of this run")
        return pl.read_csv(path, infer_schema_length=None)

    @cached_property
    def options(self) -> RunOptions:
        return RunOptions(align="utc", every_thread=True)

    @cached_property
    def found(self) -> nsys2prv.Analysis:
        return nsys2prv.analyze(self.folder, question=Question(window="trace", gaps=1000), options=self.options)

    @cached_property
    def trace(self) -> nsys2prv.Trace:
        selection = nsys2prv.Selection(families=(*DEFAULT_FAMILIES, "projection_thread"))
        made = nsys2prv.translate(self.folder, self._made, options=self.options, selection=selection)
        assert made.prv is not None
        return nsys2prv.read_prv(made.prv)

    @cached_property
    def drawn(self) -> pl.DataFrame:
        """What the trace shows, by rank, with its length."""
        rank = pl.col("pid").replace_strict({pid: rank for rank, pid in enumerate(self.pids)})
        return drawn.intervals(self.trace).with_columns(rank=rank, ns=pl.col("end") - pl.col("start"))

    @cached_property
    def pids(self) -> list[int]:
        return [int(task.name.rpartition(":")[2]) for task in self.found.run.tasks]

    def rank(self, pid: int) -> int:
        return self.pids.index(pid)

    def work(self, rank: int, kinds: tuple[str, ...] | None = None) -> pl.DataFrame:
        own = self.found.run.work.filter(pl.col("task") == rank)
        return own if kinds is None else own.filter(pl.col("kind").is_in(kinds))


def sql(report: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(report)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module", params=ARCHIVES)
def recipes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recipes:
    return Recipes(request.param, tmp_path_factory.mktemp("recipes"))


def summary(table: pl.DataFrame, *key: str) -> dict[tuple[Any, ...], list[float]]:
    """Count, sum, lowest and highest, mean, median and standard deviation by a key. A deviation of one is 0."""
    rows = table.select(*key, *(c for c in SUMMARY if c in table.columns)).fill_null(0).rows()
    return {row[: len(key)]: [float(value) for value in row[len(key) :]] for row in rows}


def ours(table: pl.DataFrame, *key: str) -> dict[tuple[Any, ...], list[float]]:
    return summary(table.rename({mine: theirs for theirs, mine in SUMMARY.items()}), *key)


def of_lengths(table: pl.DataFrame, *key: str) -> dict[tuple[Any, ...], list[float]]:
    """The same of single intervals with their `ns`."""
    ns = pl.col("ns")
    found = table.group_by(key).agg(
        Count=pl.len(), Sum=ns.sum(), Min=ns.min(), Max=ns.max(), Mean=ns.mean(), Median=ns.median(), Std=ns.std()
    )
    return summary(found, *key)


def assert_same(mine: dict[tuple[Any, ...], list[float]], theirs: dict[tuple[Any, ...], list[float]]) -> None:
    """Counts, sums and extremes are equal; the others to the digit that recipes print."""
    assert mine.keys() == theirs.keys()
    for key, values in theirs.items():
        assert mine[key][:4] == values[:4], key
        assert mine[key][4:] == pytest.approx(values[4:], abs=ROUNDING), key


def test_kernels(recipes: Recipes) -> None:
    """cuda_gpu_kern_sum. A name of several classes has a row for each here: single kernels are summed up by name."""
    work = recipes.found.run.work.filter(pl.col("kind").is_in(["kernel", "nccl"]))
    lengths = work.with_columns(ns=pl.col("end") - pl.col("start"), name=pl.col("name").cast(pl.String))
    theirs = recipes.said("cuda_gpu_kern_sum/rank_stats")
    assert_same(of_lengths(lengths, "task", "name"), summary(theirs, "Rank", "Name"))
    sums = recipes.found.kernels.drop_nulls("rank").group_by("rank", "name").agg(pl.sum("instances", "total_ns"))
    assert {tuple(row[:2]): row[2:] for row in sums.rows()} == {
        tuple(row[:2]): row[2:] for row in theirs.select("Rank", "Name", "Count", "Sum").rows()
    }


def test_sums_of_all_ranks(recipes: Recipes) -> None:
    """all_stats of kernels, memory operations and CUDA calls: quartiles and deviations are approximations there."""
    found = recipes.found
    plain = pl.col("Name").str.replace(r"_v\d+$", "").replace(MEMORY)
    calls = found.api.filter(pl.col("kind") == "cuda")
    for name, table in {"api": calls, "gpu_kern": found.kernels, "gpu_mem_time": found.memory}.items():
        theirs = recipes.said(f"cuda_{name}_sum/all_stats").select(plain, "Count", "Sum", "Min", "Max")
        of_name = table.filter(pl.col("rank").is_null()).group_by("name")
        mine = of_name.agg(pl.sum("instances", "total_ns"), pl.min("min_ns"), pl.max("max_ns"))
        assert sorted(mine.rows()) == sorted(theirs.rows())


def test_memory_operations(recipes: Recipes) -> None:
    """cuda_gpu_mem_time_sum, cuda_gpu_mem_size_sum."""
    mine = recipes.found.memory.drop_nulls("rank")
    times, sizes = (recipes.said(f"cuda_gpu_mem_{what}_sum/rank_stats") for what in ("time", "size"))
    named = pl.col("Name").replace_strict(MEMORY)
    assert_same(ours(mine, "rank", "name"), summary(times.with_columns(named), "Rank", "Name"))
    bytes_of = {tuple(row[:2]): row[2:] for row in mine.select("rank", "name", "instances", "bytes").rows()}
    said = sizes.with_columns(named).select("Rank", "Name", "Count", "Sum").rows()
    assert bytes_of == {tuple(row[:2]): row[2:] for row in said}


def test_cuda_calls(recipes: Recipes) -> None:
    """cuda_api_sum: names come without the version of the interface here."""
    theirs = recipes.said("cuda_api_sum/rank_stats").with_columns(pl.col("Name").str.replace(r"_v\d+$", ""))
    assert theirs.select("Rank", "Name").is_unique().all()
    mine = recipes.found.api.filter(pl.col("kind") == "cuda").drop_nulls("rank")
    assert_same(ours(mine, "rank", "name"), summary(theirs, "Rank", "Name"))


def test_synchronous_calls(recipes: Recipes) -> None:
    """cuda_api_sync: calls in which the host waits."""
    theirs = recipes.said("cuda_api_sync/analysis").with_columns(pl.col("API Name").str.replace(r"_v\d+$", ""))
    calls = recipes.found.run.calls.filter(pl.col("kind") == "cuda")
    mine = {
        (recipes.pids[task], str(name), start - recipes.begins[task], end - start)
        for task, name, start, end in calls.select("task", "name", "start", "end").rows()
    }
    assert set(theirs.select("PID", "API Name", "Start", "Duration").rows()) <= mine


def test_os_calls(recipes: Recipes) -> None:
    """osrt_sum: of all threads, also the profiler's, which `analyze` leaves out unless every thread has a row."""
    calls = recipes.drawn.filter(pl.col("kind") == "os call", pl.col("label") != "[Unknown]")
    theirs = recipes.said("osrt_sum/rank_stats")
    assert_same(of_lengths(calls, "rank", "label"), summary(theirs, "Rank", "Name"))


def test_idle_times(recipes: Recipes) -> None:
    """gpu_gaps: those of 1 ms or more between the first and the last activity of a device."""
    theirs = recipes.said("gpu_gaps/analysis").select("PID", "Start", "Duration").rows()
    mine = set()
    for task, start, ns in recipes.found.gaps.select("rank", "start_ns", "idle_ns").rows():
        work = recipes.work(task)
        if ns >= 1_000_000 and work["start"].min() < start and start + ns < work["end"].max():  # type: ignore[operator]
            mine.add((recipes.pids[task], start - recipes.begins[task], ns))
    assert mine == set(theirs)


def test_low_use_of_a_device(recipes: Recipes) -> None:
    """gpu_time_util: the sum of all activities, where `analyze` takes their union."""
    for pid, start, ns, in_use in (
        recipes.said("gpu_time_util/analysis").select("PID", "Start", "Duration", "In-Use").rows()
    ):
        rank = recipes.rank(pid)
        low = start + recipes.begins[rank]
        work = recipes.work(rank)
        clipped = work["end"].clip(low, low + ns) - work["start"].clip(low, low + ns)
        assert 100 * int(clipped.sum()) / ns == pytest.approx(in_use, abs=ROUNDING)
        assert 100 * covered(work, one_span(low, low + ns)).total() / ns <= in_use + ROUNDING


def recorded_bins(recipes: Recipes, table: pl.DataFrame) -> list[tuple[int, dict[str, Any], Spans]]:
    """Rank, row and span of each bin of a map: the part of it in which the rank's session lasted."""
    ordered = table.sort("PID", "Duration")
    width = int(ordered["Duration"][1])
    found = []
    for row in ordered.rows(named=True):
        rank = recipes.rank(row["PID"])
        length = sql(recipes.reports[rank], "SELECT max(duration) FROM ANALYSIS_DETAILS")[0][0]
        begin = recipes.begins[rank]
        low, high = max(row["Duration"], begin), min(row["Duration"] + width, begin + length)
        if low < high:
            found.append((rank, row, one_span(low, high)))
    return found


def share(recipes: Recipes, rank: int, kinds: tuple[str, ...], span: Spans) -> float:
    return 100 * covered(recipes.work(rank, kinds), span).total() / span.total()


def test_use_over_time(recipes: Recipes) -> None:
    """cuda_gpu_time_util_map: of 30 bins the part in which the rank's session lasted."""
    bins = recorded_bins(recipes, recipes.said("cuda_gpu_time_util_map/analysis"))
    for rank, row, span in bins:
        assert share(recipes, rank, ("kernel", "nccl"), span) == pytest.approx(row["Kernel"] or 0, abs=ROUNDING)
    assert len(bins) > 30


def test_communication_over_time(recipes: Recipes) -> None:
    """nccl_gpu_time_util_map: the same of NCCL kernels, of others, and of both at once."""
    for rank, row, span in recorded_bins(recipes, recipes.said("nccl_gpu_time_util_map/analysis")):
        nccl, computing = (covered(recipes.work(rank, kinds), span) for kinds in ((NCCL,), USEFUL_KINDS))
        both = 100 * intersection(nccl, computing).total() / span.total()
        mine = (share(recipes, rank, ("kernel", "nccl"), span), 100 * nccl.total() / span.total(), both)
        theirs = tuple(row[name] or 0 for name in ("All", "NCCL", "Overlap"))
        assert mine == pytest.approx(theirs, abs=ROUNDING)


def test_overlap_of_each_kernel(recipes: Recipes) -> None:
    """nccl_gpu_overlap_trace: of NCCL kernels what others compute meanwhile, and the other way round."""
    for (pid,), rows in recipes.said("nccl_gpu_overlap_trace/rank_trace").group_by("PID"):
        rank = recipes.rank(pid)  # type: ignore[arg-type]
        nccl, computing = (covered(recipes.work(rank, kinds)) for kinds in ((NCCL,), USEFUL_KINDS))
        is_nccl = rows["Name"].str.starts_with("nccl")
        for part, others, column in (
            (rows.filter(is_nccl), computing, "Compute Overlap"),
            (rows.filter(~is_nccl), nccl, "Communication Overlap"),
        ):
            start, end = (part[c].to_numpy() + recipes.begins[rank] for c in ("Start", "End"))
            mine = 100 * (time_in(others, end) - time_in(others, start)) / (end - start)
            assert np.abs(mine - part[column].to_numpy()).max() < ROUNDING


def test_time_of_collectives(recipes: Recipes) -> None:
    """nccl_gpu_proj_sum: by call, where a group's end launches; here by operation."""
    theirs = recipes.said("nccl_gpu_proj_sum/rank_stats")
    table = recipes.found.overlap.select("rank", "operation", "kernels", "communication_ns")
    if set(theirs["Text"]) == {"ncclGroupEnd"}:
        mine = {row[0]: row[2:] for row in table.rows() if row[1] == "all"}
        assert mine == {rank: (count, ns) for rank, count, ns in theirs.select("Rank", "Count", "Sum").rows()}
    else:
        mine = {(rank, f"nccl{name}"): tuple(rest) for rank, name, *rest in table.rows() if name != "all"}
        said = theirs.select("Rank", "Text", "Count", "Sum").rows()
        assert mine == {(rank, name): tuple(rest) for rank, name, *rest in said}


def test_nccl_calls(recipes: Recipes) -> None:
    """nccl_sum: calls on the host."""
    calls = recipes.drawn.filter(pl.col("kind") == "NVTX NCCL")
    assert_same(of_lengths(calls, "rank", "label"), summary(recipes.said("nccl_sum/rank_stats"), "Rank", "Text"))


def test_ranges(recipes: Recipes) -> None:
    """nvtx_sum."""
    ranges = recipes.drawn.filter(pl.col("kind").str.starts_with("NVTX "))
    assert_same(of_lengths(ranges, "rank", "label"), summary(recipes.said("nvtx_sum/rank_stats"), "Rank", "Text"))


def test_pace_of_a_range(recipes: Recipes) -> None:
    """nvtx_pace: begin and length of each `forward`."""
    starts, lengths = (recipes.said(f"nvtx_pace/pace_{what}") for what in ("start", "duration"))
    for rank in range(len(recipes.reports)):
        own = recipes.found.run.ranges.filter(pl.col("task") == rank, pl.col("text") == "forward").sort("start")
        assert own["start"].to_list() == starts[str(rank)].cast(pl.Int64).to_list()
        assert (own["end"] - own["start"]).to_list() == lengths[str(rank)].cast(pl.Int64).to_list()


def test_pace_of_a_kernel(recipes: Recipes) -> None:
    """cuda_gpu_kern_pace: begin and length of each ncclDevKernel_SendRecv."""
    starts, lengths = (recipes.said(f"cuda_gpu_kern_pace/pace_{what}") for what in ("start", "duration"))
    for rank in range(len(recipes.reports)):
        own = recipes.work(rank).filter(pl.col("name") == "ncclDevKernel_SendRecv").sort("start")
        assert own["start"].to_list() == starts[str(rank)].to_list()
        assert (own["end"] - own["start"]).to_list() == lengths[str(rank)].to_list()


def projected(recipes: Recipes) -> pl.DataFrame:
    """Ranges on the device by what their own thread launched: rank, label, start, end, ns.

    The trace has a range on each of its streams, which are one here; they overlap.
    """
    own = "on the device, own thread's work"
    kinds = [number for number, name in recipes.trace.types.items() if name.endswith(own)]
    drawn_ranges = pl.concat(recipes.trace.intervals(number) for number in kinds)
    rows = []
    for (task, label), part in drawn_ranges.group_by("task", "label"):
        spans = union(part["start"].to_numpy(), part["end"].to_numpy())
        rows += [(task - 1, label, *span) for span in zip(*(times.tolist() for times in spans), strict=True)]
    found = pl.DataFrame(rows, schema=["rank", "label", "start", "end"], orient="row")
    return found.with_columns(ns=pl.col("end") - pl.col("start"))


def test_projected_ranges(recipes: Recipes) -> None:
    """nvtx_gpu_proj_trace: by thread, as `projection_thread` has it; `analyze` takes the work of all threads."""
    theirs = recipes.said("nvtx_gpu_proj_trace/trace").select("PID", "Text", "Start", "End").rows()
    mine = [
        (recipes.pids[rank], label, start - recipes.begins[rank], end - recipes.begins[rank])
        for rank, label, start, end in projected(recipes).select("rank", "label", "start", "end").rows()
    ]
    assert sorted(mine) == sorted(theirs)


def test_sums_of_projected_ranges(recipes: Recipes) -> None:
    """nvtx_gpu_proj_sum."""
    theirs = summary(recipes.said("nvtx_gpu_proj_sum/rank_stats"), "Rank", "Text")
    assert_same(of_lengths(projected(recipes), "rank", "label"), theirs)


def test_pace_of_a_projected_range(recipes: Recipes) -> None:
    """nvtx_gpu_proj_pace: begin and length of each `forward`."""
    starts, lengths = (recipes.said(f"nvtx_gpu_proj_pace/pace_{what}") for what in ("start", "duration"))
    drawn_ranges = projected(recipes).filter(pl.col("label").str.contains("^forward$"))
    for rank in range(len(recipes.reports)):
        own = drawn_ranges.filter(pl.col("rank") == rank).sort("start")
        assert (own["start"].to_list(), own["ns"].to_list()) == (
            starts[str(rank)].to_list(),
            lengths[str(rank)].to_list(),
        )


def test_sampled_metrics(recipes: Recipes) -> None:
    """gpu_metric_util_sum: only the samples from the session's begin on. A trace has those before it, too."""
    query = """SELECT typeId & 255, metricName, count(*), sum(value), min(value), max(value)
        FROM GPU_METRICS JOIN TARGET_INFO_GPU_METRICS USING (typeId, metricId) WHERE timestamp >= 0 GROUP BY 1, 2"""
    theirs = recipes.said("gpu_metric_util_sum/rank_stats")
    said = set(theirs.select("GPU ID", "Metric Name", "Count", "Sum", "Min", "Max").rows())
    names = set(theirs["Metric Name"])
    counted = [row for report in recipes.reports if has_metrics(report) for row in sql(report, query)]
    # The unit is left out of some names.
    assert said == {(gpu, name if name in names else name.partition(" [")[0], *rest) for gpu, name, *rest in counted}


def test_sampled_links(recipes: Recipes) -> None:
    """nvlink_sum: of these samples those that are not 0."""
    query = """SELECT m.metricName, g.busLocation || ' - ' || g.name, count(*), sum(value), min(value), max(value)
        FROM GPU_METRICS JOIN TARGET_INFO_GPU_METRICS m USING (typeId, metricId)
        JOIN TARGET_INFO_GPU g ON g.id = typeId & 255
        WHERE timestamp >= 0 AND value > 0 AND m.metricName LIKE 'NVLink%' GROUP BY 1, 2"""
    theirs = recipes.said("nvlink_sum/stats_by_gpu")
    said = set(theirs.select("Metric Name", "GPU", "Count", "Sum", "Min", "Max").rows())
    counted = [row for report in recipes.reports if has_metrics(report) for row in sql(report, query)]
    assert said == {(name.partition(" [")[0], *rest) for name, *rest in counted}


def has_metrics(report: Path) -> bool:
    return bool(sql(report, "SELECT 1 FROM sqlite_master WHERE name = 'GPU_METRICS'"))

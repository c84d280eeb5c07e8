"""Metrics by family at 10 kHz against Nsight Compute, on a program of many kinds of kernels."""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nsys2prv.analysis.frames import WORK, Run, Sampled
from nsys2prv.analysis.metrics.fit_columns import IDLE, FittedColumn, column_spans
from nsys2prv.analysis.metrics.metrics_by_class import ClassMean, fold_borders, solve, sum_up
from nsys2prv.analysis.metrics.sm_clock import clock_at, with_clocks
from nsys2prv.commands.analyze import open_run
from nsys2prv.intervals.spans import Spans, one_span

DATA = Path(__file__).parents[2] / "data" / "metrics-by-class"
TENSOR, ISSUE, WARPS = (
    "Tensor Active [Throughput %]",
    "SM Issue [Throughput %]",
    "Compute Warps in Flight [Throughput %]",
)
READ, WRITE = "DRAM Read Bandwidth [Throughput %]", "DRAM Write Bandwidth [Throughput %]"
PEAK = ".pct_of_peak_sustained_elapsed"
NCU = {
    TENSOR: "sm__pipe_tensor_cycles_active.avg" + PEAK,
    ISSUE: "sm__issue_active.avg" + PEAK,
    WARPS: "sm__warps_active.avg" + PEAK,
    READ: "dram__bytes_read.sum" + PEAK,
    WRITE: "dram__bytes_write.sum" + PEAK,
}
STEP = 2


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    path = tmp_path_factory.mktemp("mixed") / "mixed-10kHz.sqlite"
    path.write_bytes(lzma.decompress((DATA / "mixed-10kHz.sqlite.xz").read_bytes()))
    with open_run(path, metrics=list(NCU)) as found:
        yield found


@pytest.fixture(scope="module")
def truth(run: Run) -> pl.DataFrame:
    """Means of Nsight Compute by family, weighted by time: its kernels are those of one step, in order."""
    measured = pl.read_csv(DATA / "mixed-ncu.csv", skip_rows_after_header=1)
    kernels = run.work.filter(pl.col("kind") == "kernel").sort("start")
    step = kernels[STEP * measured.height : (STEP + 1) * measured.height]
    time = pl.col("gpu__time_duration.sum")
    joined = measured.with_columns(step["family"].cast(pl.String))
    means = [((pl.col(column) * time).sum() / time.sum()).alias(metric) for metric, column in NCU.items()]
    return joined.group_by("family").agg(means)


def fitted(run: Run, metric: str, clock: bool = True) -> dict[str, ClassMean]:
    sampled = next(s for s in run.samples if s.metric == metric)
    window, borders = one_span(*run.active), fold_borders(*run.active, np.zeros(0, np.int64))
    found = solve(
        sum_up(
            sampled if clock else sampled._replace(clock=None),
            column_spans(run.work, "family", window),
            window,
            borders,
        )
    )
    assert found is not None
    return {" + ".join(c.classes): c for c in found.classes}


def test_tensor_activity_agrees_with_nsight_compute(run: Run, truth: pl.DataFrame) -> None:
    """5 % above 20 %, 1.5 points below, and 2.5 standard errors."""
    found = fitted(run, TENSOR)
    for family, wanted in truth.select("family", TENSOR).rows():
        mean, error = found[family].mean, found[family].std_error
        assert mean is not None, family
        assert error is not None, family
        assert abs(mean - wanted) <= (0.05 * wanted if wanted > 20 else 1.5), family
        assert abs(mean - wanted) <= 2.5 * error, family


@pytest.mark.parametrize("metric", [ISSUE, WARPS, READ, WRITE])
def test_other_metrics_agree_with_nsight_compute(run: Run, truth: pl.DataFrame, metric: str) -> None:
    """15 % above 20 %, 4 points below, where a family has a number."""
    found = fitted(run, metric)
    compared = 0
    for family, wanted in truth.select("family", metric).rows():
        mean = found[family].mean
        if mean is not None:
            compared += 1
            assert abs(mean - wanted) <= (0.15 * wanted if wanted > 20 else 4), family
    assert compared >= 6


def test_without_the_clock_classes_stay_whole(run: Run) -> None:
    """Then tensor kernels read low, as the clock falls while they run."""
    with_clock, without = fitted(run, TENSOR), fitted(run, TENSOR, clock=False)
    known, unknown = with_clock["GEMM"].mean, without["GEMM"].mean
    assert known is not None
    assert unknown is not None
    assert unknown < known - 1


def test_only_shares_of_cycles_have_a_clock(run: Run) -> None:
    assert {s.metric for s in run.samples if s.clock is not None} == {TENSOR, ISSUE, WARPS}
    assert {s.metric for s in with_clocks(run.samples, ["dram"])} == {READ, WRITE}


def pieces(times: Sequence[int], values: Sequence[int], size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for low in range(0, len(times), size):
        yield np.array(times[low : low + size]), np.array(values[low : low + size])


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_clock_is_found_whatever_its_pieces(size: int) -> None:
    at = clock_at(lambda: pieces([0, 10, 20, 30, 40], [2, 2, 1, 2, 4], size))
    assert [*at(np.array([0, 10])), *at(np.array([20, 30])), *at(np.array([40, 50]))] == [1, 1, 0.5, 1, 2, 2]


def test_clocks_weigh_kernels() -> None:
    """Kernels of 80 % activity halve the clock: a sample that each fills half reads 26.7 %, not 40 %."""
    cycle = np.arange(0, 300_000, 1300)
    spans = {FittedColumn("hot"): (cycle, cycle + 650), FittedColumn(IDLE): (cycle + 650, cycle + 1300)}
    start = np.arange(0, 299_000, 1000)
    fine = np.arange(0, 299_000)
    hot = (fine % 1300) < 650
    clock = np.where(hot, 1000, 2000).reshape(-1, 1000).mean(axis=1)
    active = np.where(hot, 0.8 * 1000, 0).reshape(-1, 1000).mean(axis=1)
    values = 10_000 * active / clock

    def sampled(of: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield start, of.round().astype(np.int64)

    one = Sampled(0, "Tensor Active", len(start), lambda: sampled(values), lambda: sampled(1000 * clock))
    from_spans = {column: Spans(*ends) for column, ends in spans.items()}
    found = solve(sum_up(one, from_spans, one_span(0, 300_000), np.zeros(0, np.int64)))
    assert found is not None
    assert {c.classes[0]: c.mean for c in found.classes}["hot"] == pytest.approx(8000, abs=10)
    plain = solve(sum_up(one._replace(clock=None), from_spans, one_span(0, 300_000), np.zeros(0, np.int64)))
    assert plain is not None
    assert {c.classes[0]: c.mean for c in plain.classes}["hot"] == pytest.approx(5585, abs=10)


def test_parts_are_kernels_of_one_name_and_length() -> None:
    times = [("a", 100, 0), ("a", 110, 1000), ("a", 900, 2000), ("b", 100, 4000)]
    rows = {"start": [s for *_, s in times], "end": [s + d for _, d, s in times], "name": [n for n, *_ in times]}
    work = pl.DataFrame({**rows, "class": "GEMM", "family": "GEMM"})
    work = work.with_columns(pl.col(c).cast(WORK[c]) for c in rows.keys() | {"class", "family"})
    found = column_spans(work, "family", one_span(0, 5000))
    parts = {(c.name, c.length): spans.total() for c, spans in found.items() if c.name is not None}
    assert parts == {("a", 6): 210, ("a", 9): 900, ("b", 6): 100}

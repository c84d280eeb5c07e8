"""Figures that real Paraver gives by the shipped cfgs, against SQL over the same window."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from pathlib import Path

import paramedir
import pytest
from truth import Run, Table

import nsys2prv
from nsys2prv.paraver.cfg import CFGS
from nsys2prv.paraver.cfg.hwcounters import METRICS

pytestmark = pytest.mark.paraver

SAMPLES = Path(__file__).parents[2] / "sample_reports"
RUNS = ("gpt-ddp", "mpi-halo", "single/saxpy", "single/graph-node", "single/openmp")
PLANES = "kernel_duration_histogram"
# What is estimated has a test of its own: tests/engine/test_estimates.py.
ANALYSES = [c.name for c in CFGS if c.folder == "analysis" and c.name not in (PLANES, "tensor_activity")]
# Paraver prints ten decimals.
PRINTED = 1e-10


def reports_of(run: str) -> list[Path]:
    return sorted(SAMPLES.glob(f"{run}/*.sqlite") if (SAMPLES / run).is_dir() else SAMPLES.glob(f"{run}.sqlite"))


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], paramedir.Output]:
    """Output of all cfgs on the trace of a run."""

    @cache
    def of(run: str) -> paramedir.Output:
        folder = tmp_path_factory.mktemp(run.replace("/", "-"))
        paramedir.program()
        prv = nsys2prv.translate(reports_of(run), folder / "trace", quiet=True).prv
        assert prv is not None
        return paramedir.run(prv, CFGS, folder / "out")

    return of


@cache
def truth(run: str) -> Run:
    return Run(reports_of(run))


def named_alike(table: Table) -> Table:
    """Rows by rank or thread id, without names of programs and threads; columns of ranks alike."""
    rank, thread = re.compile(r"^(rank \d+) .*"), re.compile(r"^(?!CUDA|Metrics|rank).* (\d+)$")
    return {(thread.sub(r"\1", rank.sub(r"\1", row)), rank.sub(r"\1", column)): v for (row, column), v in table.items()}


@pytest.mark.parametrize("run", RUNS)
def test_no_cfg_makes_paraver_complain(run: str, shown: Callable[[str], paramedir.Output]) -> None:
    assert shown(run).complaints == ""


@pytest.mark.parametrize("run", ["gpt-ddp", "mpi-halo"])
@pytest.mark.parametrize("name", ANALYSES)
def test_analysis_equals_sql(run: str, name: str, shown: Callable[[str], paramedir.Output]) -> None:
    expected: Table = getattr(truth(run), name)()
    if not expected:
        pytest.skip("the run has nothing of this kind")
    assert named_alike(shown(run).table(f"analysis/{name}")) == pytest.approx(expected, rel=1e-11, abs=PRINTED)


def test_each_class_has_a_histogram_of_durations(shown: Callable[[str], paramedir.Output]) -> None:
    run = truth("gpt-ddp")
    planes = shown("gpt-ddp").planes(f"analysis/{PLANES}")
    assert set(planes) == {name for _, name in run.kernel_time_by_class()}
    for kernel_class, table in planes.items():
        assert table == run.kernel_duration_histogram(kernel_class)


def test_efficiencies_are_the_oracles(shown: Callable[[str], paramedir.Output]) -> None:
    """Factors as the cfgs' descriptions say to read them off; ns per device with NCCL as useful, published with it."""
    output = shown("gpt-ddp")
    useful, busy = (output.totals(f"analysis/{c}", "inside") for c in ("parallel_efficiency", "device_busy"))
    with_nccl = output.totals("analysis/parallel_efficiency_nccl_useful", "inside")
    assert (useful["Average"], useful["Avg/Max"]) == pytest.approx((0.0357, 0.9982), abs=5e-5)
    assert (with_nccl["Average"], with_nccl["Avg/Max"]) == pytest.approx((0.5434, 0.5516), abs=5e-5)
    assert useful["Maximum"] / busy["Maximum"] == pytest.approx(0.0363, abs=5e-5)
    assert with_nccl["Maximum"] / busy["Maximum"] == pytest.approx(0.9997, abs=5e-5)
    assert busy["Maximum"] == pytest.approx(0.9854, abs=5e-5)
    states = output.table("analysis/device_states_nccl_useful")
    ns = [round(states[row, column] / 100 * 678_796_712) for row, column in sorted(states) if column == "2"]
    assert ns == [668_689_997, 260_519_366, 287_773_277, 258_510_498]


def test_mean_over_gpus_equals_sql(shown: Callable[[str], paramedir.Output]) -> None:
    """At each change the mean of the values held on the GPUs sampled so far; the first above 0 tells the origin."""
    sampled = [r.samples("Tensor Active [Throughput %]") for r in truth("gpt-ddp").reports]
    lines = shown("gpt-ddp").lines("hwcounters/mean/tensor_active")
    first = next(begin for _, begin, _, value in lines if value)
    origin = min(t for times, values in sampled for t, v in zip(times, values, strict=True) if v) - int(first)
    checked = 0
    for _, begin, duration, value in lines:
        held = [v[n] for t, v in sampled if (n := bisect_right(t, origin + int(begin)) - 1) >= 0]
        if duration and held:
            assert value == pytest.approx(sum(held) / len(held), abs=0.0051)
            checked += 1
    assert checked > 1000


@pytest.mark.parametrize("slug", METRICS)
def test_metric_in_kernels_equals_sql(slug: str, shown: Callable[[str], paramedir.Output]) -> None:
    scale = 1e-6 if METRICS[slug].endswith("[MHz]") else 1.0
    expected = {key: v * scale for key, v in truth("gpt-ddp").in_kernels(metric_name(slug)).items()}
    assert shown("gpt-ddp").table(f"hwcounters/in_kernels/{slug}") == pytest.approx(expected, rel=1e-9, abs=PRINTED)


def metric_name(slug: str) -> str:
    """The metric's name in the sample reports."""
    return METRICS[slug].replace("SM*", "SMs").replace("Tensor Active*", "Tensor Active [Throughput %]")

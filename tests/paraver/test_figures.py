"""Figures that real Paraver gives by the shipped cfgs, against SQL over the same window."""

from __future__ import annotations

import re
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
ANALYSES = [c.name for c in CFGS if c.folder == "analysis" and c.name != PLANES]
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
    """Rows by rank or thread id, without names of programs and threads."""
    return {(re.sub(r"^(rank \d+) .*|^(?!CUDA|Metrics).* (\d+)$", r"\1\2", row), c): v for (row, c), v in table.items()}


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


@pytest.mark.parametrize("run", ["gpt-ddp", "mpi-halo"])
def test_each_class_has_a_histogram_of_durations(run: str, shown: Callable[[str], paramedir.Output]) -> None:
    planes = shown(run).planes(f"analysis/{PLANES}")
    assert set(planes) == {name for _, name in truth(run).kernel_time_by_class()}
    for kernel_class, table in planes.items():
        assert table == truth(run).kernel_duration_histogram(kernel_class)


@pytest.mark.parametrize("slug", METRICS)
def test_metric_in_kernels_equals_sql(slug: str, shown: Callable[[str], paramedir.Output]) -> None:
    scale = 1e-6 if METRICS[slug].endswith("[MHz]") else 1.0
    expected = {key: v * scale for key, v in truth("gpt-ddp").in_kernels(metric_name(slug)).items()}
    assert shown("gpt-ddp").table(f"hwcounters/in_kernels/{slug}") == pytest.approx(expected, rel=1e-9, abs=PRINTED)


def metric_name(slug: str) -> str:
    """The metric's name in the sample reports."""
    return METRICS[slug].replace("SM*", "SMs").replace("Tensor Active*", "Tensor Active [Throughput %]")

"""What Paraver does with cfgs of event types that a trace lacks: it greys them in its menu, or asks, or shows nothing.

Its rule for the menu: a cfg is grey if no label that it names has a type in the PCF, and no number that it names has an
event. It asks if a type has no event, which it takes by number where no label of the PCF fits.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from fnmatch import fnmatchcase
from pathlib import Path

import paramedir
import pytest
from runs import Runs, reports_of

import nsys2prv
from nsys2prv.families.registry import FAMILIES
from nsys2prv.paraver.cfg import CFGS, Cfg
from nsys2prv.paraver.cfg.views import OVERVIEW
from nsys2prv.paraver.cfg.workspaces import hint

NUMBERS = re.compile(r"^window_filter_module evt_type \d+ (.*)$", re.M)
LABELS = re.compile(r"^window_filter_module evt_type_label \d+ (.*)$", re.M)
METRICS = {cfg.path for cfg in CFGS if cfg.folder == "hwcounters"}
NCCL = {"collective_time", "nccl_bytes", "nccl_time", "overlap_of_communication", "overlap_of_window"}
# Their columns are classes of kernels, which nearly every trace has.
RATES = {"views/operation_rate.cfg", "views/dram_rate.cfg"}
# States are no events.
NEEDING = [cfg for cfg in CFGS if "(needs --" in hint(cfg) and cfg.name != "states" and cfg.path not in RATES]
# What a run lacks of what these tables are about.
ABOUT = {
    "gpt-ddp": {"host_mpi"},
    "mpi-halo": NCCL | {"tensor_activity"},
    "saxpy": {
        *(*NCCL, "host_mpi", "tensor_activity", "waiting_by_rank"),
        *("host_synchronization", "iteration_efficiency", "iteration_time", "pop_by_iteration"),
    },
    "graph-node": NCCL | {"host_mpi", "tensor_activity", "waiting_by_rank"},
}


def is_grey(cfg: Cfg, trace: nsys2prv.Trace) -> bool:
    """Whether Paraver greys a cfg in its menu of a trace."""
    text, loaded = cfg.text(), set(trace.events["type"])
    labels = {label for found in LABELS.findall(text) for label in re.findall(r'"([^"]*)"', found)}
    numbers = {int(number) for found in NUMBERS.findall(text) for number in found.split()}
    named = any(fnmatchcase(known, label) for known in trace.types.values() for label in labels)
    return not named and not numbers & loaded


@pytest.mark.parametrize("cfg", NEEDING, ids=lambda cfg: cfg.path)
def test_what_an_option_brings_is_grey_without_it(cfg: Cfg, translations: Runs) -> None:
    for run in ("gpt-ddp", "saxpy", "openmp"):
        assert is_grey(cfg, translations.default(run).trace)


def test_what_an_option_brings_is_offered_with_it(tmp_path: Path) -> None:
    """All that the run has data for."""
    families = tuple(f.name for f in FAMILIES)
    selection, writing = nsys2prv.Selection(families=families), nsys2prv.TraceOutput(public_types=True)
    execution = nsys2prv.Execution(quiet=True)
    nsys2prv.translate(reports_of("gpt-ddp"), tmp_path / "t", selection=selection, writing=writing, execution=execution)
    trace = nsys2prv.read_prv(tmp_path / "t.prv")
    offered = {cfg.name for cfg in NEEDING if not is_grey(cfg, trace)}
    brought = {"critical_path", "critical_path_by_class", "idle_causes", "launch_queues", "projection_thread"}
    assert offered >= brought | {"pthreads", "os_callers", "overhead"}


@pytest.mark.paraver
@pytest.mark.parametrize("run", ABOUT)
def test_paraver_asks_only_where_a_table_has_nothing_to_show(run: str, translations: Runs, tmp_path: Path) -> None:
    """Or where a metric of one of the cfgs by metric is missing."""
    asks = paramedir.run(translations.default(run).prv, CFGS, tmp_path / "out").asks - METRICS
    assert asks == RATES | {f"analysis/{name}.cfg" for name in ABOUT[run]}


@pytest.mark.paraver
def test_a_run_of_whole_graphs_is_asked_about_its_kernels_alone(translations: Runs, tmp_path: Path) -> None:
    """Tables of efficiency are complete without single kernels."""
    asks = paramedir.run(translations.default("graph-graph").prv, CFGS, tmp_path / "out").asks
    assert not asks & {f"analysis/{name}.cfg" for name in ("pop_efficiency", "device_states", "useful_time")}
    assert "analysis/kernel_time.cfg" in asks


@pytest.mark.paraver
def test_metrics_at_a_glance_shows_those_that_there_are(translations: Runs, tmp_path: Path) -> None:
    """Without a question, and the same as beside the others."""
    few = tmp_path / "few.sqlite"
    shutil.copy(reports_of("saxpy")[0], few)
    with sqlite3.connect(few) as report:
        kept = (
            "SELECT metricId FROM TARGET_INFO_GPU_METRICS WHERE metricName LIKE 'SM%Active%' OR metricName LIKE 'DRAM%'"
        )
        report.execute(f"DELETE FROM GPU_METRICS WHERE metricId NOT IN ({kept})")
        report.execute(f"DELETE FROM TARGET_INFO_GPU_METRICS WHERE metricId NOT IN ({kept})")
    nsys2prv.translate(few, tmp_path / "few", execution=nsys2prv.Execution(quiet=True))
    views = next(cfg for cfg in CFGS if cfg.name == "gpu_metrics")
    parts = [views._replace(name=f"metric_{n}", windows=(window,)) for n, window in enumerate(views.windows)]
    shown = {}
    for name, prv in (("few", tmp_path / "few.prv"), ("all", translations.default("saxpy").prv)):
        output = paramedir.run_parts(prv, parts, tmp_path / name)
        assert not output.asks
        assert not output.complaints
        shown[name] = [output.lines(part.path.removesuffix(".cfg")) for part in parts]
    there = [title in ("SM Active", "DRAM read", "DRAM write") for title in OVERVIEW]
    for few_lines, all_lines, kept_metric in zip(shown["few"], shown["all"], there, strict=True):
        assert any(value for *_, value in all_lines) or not kept_metric
        assert few_lines == all_lines if kept_metric else not any(value for *_, value in few_lines)

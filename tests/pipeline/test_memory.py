"""How much memory and which disk a translation or an analysis may take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from runs import left_in

import nsys2prv
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.gather.stored_intervals import gathered_rows
from nsys2prv.cli.main import cli
from nsys2prv.commands import analyze as analyze_module
from nsys2prv.commands import extraction, whole_run
from nsys2prv.errors import OutputError, UsageError
from nsys2prv.intervals.spans import Span
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.pipeline.extract import extract as extract_module
from nsys2prv.pipeline.workers import memory
from nsys2prv.pipeline.workers.maps import Map
from nsys2prv.pipeline.workers.memory import within_memory
from nsys2prv.pipeline.workers.worker_map import worker_map
from nsys2prv.report.declaration import Table
from nsys2prv.report.report import Report
from nsys2prv.report.slicing import slices
from nsys2prv.run.plan import Plan

PARENT, WORKER = DEFAULT_LIMITS.parent_memory, DEFAULT_LIMITS.worker_memory
EXPLAINED = nsys2prv.Selection(("kernels", "critical_path"))
EXPENSIVE = Limits(interval_memory=1_000_000)


@pytest.mark.parametrize(("jobs", "workers_worth", "wanted"), [(8, 2.5, 2), (8, 1.2, 1), (2, 100, 2), (1, 1.0, 1)])
def test_memory_limits_the_workers(jobs: int, workers_worth: float, wanted: int) -> None:
    assert within_memory(jobs, PARENT + int(workers_worth * WORKER), DEFAULT_LIMITS) == wanted


# Of a SLURM job, whose steps have no limit of their own (GiB of limit, use, and cached files in it).
JOB_V2 = {
    "proc/self/cgroup": "0::/slurm/job_7/step_0/task_0",
    "sys/fs/cgroup/slurm/job_7/step_0/task_0": ("max", 1, 0),
    "sys/fs/cgroup/slurm/job_7/step_0": ("max", 1, 0),
    "sys/fs/cgroup/slurm/job_7": (4, 3, 2),
    "sys/fs/cgroup/slurm": (64, 3, 2),
}
JOB_V1 = {
    "proc/self/cgroup": "4:memory:/job_7/step_0\n1:cpu,cpuacct:/job_7\n0::/",
    "sys/fs/cgroup/memory/job_7/step_0": (2**33 - 1, 1, 0),
    "sys/fs/cgroup/memory/job_7": (4, 3, 2),
}
# A container sees its own group as the topmost one, whatever the path that it is told.
CONTAINER = {"proc/self/cgroup": "4:memory:/docker/abc", "sys/fs/cgroup/memory": (2, 1, 0)}
NO_LIMIT = {"proc/self/cgroup": "0::/user", "sys/fs/cgroup/user": ("max", 1, 0)}


@pytest.mark.parametrize(("groups", "free"), [(JOB_V2, 3), (JOB_V1, 3), (CONTAINER, 1), (NO_LIMIT, 16), ({}, 16)])
def test_free_is_what_the_machine_and_all_groups_above_leave(
    groups: dict[str, Any], free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "ROOT", tmp_path)
    files: dict[str, object] = {"proc/meminfo": f"MemTotal: {2**25} kB\nMemAvailable:   {16 * 2**20} kB"}
    for place, said in groups.items():
        names = memory.VERSION_1 if "cgroup/memory" in place else memory.VERSION_2
        if isinstance(said, str):
            files[place] = said
        else:
            limit, used, cached = (n * 2**30 if isinstance(n, int) else n for n in said)
            files[f"{place}/{names[0]}"], files[f"{place}/{names[1]}"] = limit, used
            files[f"{place}/memory.stat"] = f"anon 5\n{names[2]} {cached}"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert memory.free_memory() == free * 2**30


def test_too_little_memory_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--memory 100\.0 MB is too little; give at least 750\.0 MB"):
        within_memory(1, 100_000_000, DEFAULT_LIMITS)


def test_intermediate_files_go_where_they_are_told_and_vanish(
    mpi_halo: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spill, seen = tmp_path / "spill", []
    spill.mkdir()
    (tmp_path / "out").mkdir()
    wanted = nsys2prv.translate(mpi_halo, tmp_path / "plain", execution=nsys2prv.Execution(jobs=1))
    extract_whole = extract_module._extract_whole

    def looked(*arguments: object) -> None:
        seen.append((left_in(spill), left_in(tmp_path / "out")))
        extract_whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(extract_module, "_extract_whole", looked)
    made = nsys2prv.translate(
        mpi_halo, tmp_path / "out" / "trace", execution=nsys2prv.Execution(jobs=1, spill_dir=spill)
    )
    assert seen
    assert all(len(there) == len(beside) == 1 for there, beside in seen)
    assert left_in(spill) == []
    assert left_in(tmp_path / "out") == [f"trace{e}" for e in (".align.json", ".pcf", ".prv", ".row")]
    assert made.prv is not None
    assert wanted.prv is not None
    assert made.prv.read_bytes() == wanted.prv.read_bytes()


def test_intermediate_files_may_be_told_to_go_beside_the_output(mpi_halo: list[Path], tmp_path: Path) -> None:
    made = nsys2prv.translate(mpi_halo, tmp_path / "trace", execution=nsys2prv.Execution(jobs=1, spill_dir=tmp_path))
    assert made.prv is not None
    assert left_in(tmp_path) == [f"trace{e}" for e in (".align.json", ".pcf", ".prv", ".row")]


def test_slices_go_where_intermediate_files_are_told_to_go(
    gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spill, seen = tmp_path / "spill", []
    spill.mkdir()

    def seeing(
        report: Report, columns: Mapping[Table, tuple[str, ...]], folder: Path, limits: Limits
    ) -> slices.Slices | None:
        found = slices.divide(report, columns, folder, limits)
        seen.append((folder.is_dir(), spill in folder.parents))
        return found

    monkeypatch.setattr(extract_module, "divide", seeing)
    chosen = nsys2prv.Selection(time=(90_000_000, 140_000_000))
    limits = Limits(slice_bytes=300_000, whole_bytes=0)
    nsys2prv.translate(
        gpt_ddp[0],
        tmp_path / "trace",
        selection=chosen,
        execution=nsys2prv.Execution(jobs=1, spill_dir=spill, limits=limits),
    )
    # Once to look where the time is on the report's clock, once to read it.
    assert seen == [(True, True)] * 2
    assert left_in(spill) == []


def test_a_spill_folder_that_is_not_there_is_named(mpi_halo: list[Path], tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere: cannot be written"):
        nsys2prv.translate(mpi_halo, tmp_path / "trace", execution=nsys2prv.Execution(spill_dir=tmp_path / "nowhere"))
    assert left_in(tmp_path) == []


class Gathered:
    """What an analysis reckoned with and then had in memory, and the files that it had in a folder meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.reckoned = self.held = 0
        self.files: list[str] = []
        gather = whole_run.gather

        def gathering(plan: Plan, failed: list[str], span: Span | None) -> Run:
            run = gather(plan, failed, span)
            self.files = left_in(folder)
            self.reckoned = sum(gathered_rows(plan, span))
            self.held = run.work.height + run.calls.height + run.other_calls.height + run.ranges.height
            return run

        monkeypatch.setattr(whole_run, "gather", gathering)


def test_an_analysis_keeps_its_files_where_it_is_told(
    mpi_halo: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = nsys2prv.analyze(mpi_halo, execution=nsys2prv.Execution(jobs=2)).as_json()
    seen = Gathered(monkeypatch, tmp_path)
    assert nsys2prv.analyze(mpi_halo, execution=nsys2prv.Execution(jobs=2, spill_dir=tmp_path)).as_json() == wanted
    assert len(seen.files) == 1
    assert left_in(tmp_path) == []
    with pytest.raises(OutputError, match="nowhere: cannot be written"):
        nsys2prv.analyze(mpi_halo, execution=nsys2prv.Execution(spill_dir=tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("chosen", "ranks"),
    [({}, None), ({}, frozenset({1})), ({"time": (400_000_000, 550_000_000)}, None), ({"nvtx": "step 5"}, None)],
)
def test_an_analysis_holds_about_what_it_reckons_with(
    chosen: dict[str, object],
    ranks: frozenset[int] | None,
    gpt_ddp: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = Gathered(monkeypatch, tmp_path)
    everything = nsys2prv.Selection()
    selection = nsys2prv.Selection(everything.families, **chosen)  # type: ignore[arg-type]
    options, limits = nsys2prv.RunOptions(ranks=ranks), Limits(batch_rows=256)
    nsys2prv.analyze(gpt_ddp, selection=selection, options=options, execution=nsys2prv.Execution(jobs=1, limits=limits))
    assert seen.held > 500
    # A batch that begins within the span counts whole.
    assert 0.9 < seen.reckoned / seen.held < 1.9


def test_an_analysis_of_which_memory_holds_no_part_is_refused(mpi_halo: list[Path]) -> None:
    with pytest.raises(UsageError, match=r"intervals at once takes about .*B of memory, and 750\.0 MB are free or"):
        nsys2prv.analyze(mpi_halo, execution=nsys2prv.Execution(memory=WORKER, limits=EXPENSIVE))
    few = nsys2prv.Selection(("kernels",), time=(0, 20_000_000))
    nsys2prv.analyze(mpi_halo, selection=few, execution=nsys2prv.Execution(memory=WORKER, limits=EXPENSIVE))


@pytest.mark.parametrize("time", [None, (300_000_000, 600_000_000)], ids=["all", "chosen time"])
def test_an_analysis_takes_the_middle_part_that_memory_allows(
    time: tuple[int, int] | None, gpt_ddp: list[Path]
) -> None:
    """Its figures are those of the same time, chosen by the user."""
    limits = Limits(batch_rows=64, interval_memory=120_000 if time else 40_000, range_memory=0)
    execution = nsys2prv.Execution(jobs=1, memory=WORKER, limits=limits)
    asked = nsys2prv.Selection(time=time)
    with analyze_module.open_run(gpt_ddp, asked, execution=execution, in_part=True) as run:
        assert run.chosen
        low, high = run.chosen
        begin, end = time or (0, run.duration)
    assert begin < low < (begin + end) / 2 < high < end
    part = nsys2prv.analyze(gpt_ddp, selection=asked, execution=execution, in_part=True).as_json()
    wanted = nsys2prv.analyze(gpt_ddp, selection=nsys2prv.Selection(time=(low, high))).as_json()
    said = part["warnings"].pop()
    assert re.match(
        rf"left out: all but {low / 1e9:.6f} to {high / 1e9:.6f} s: an analysis of all takes about .*B .*--time", said
    )
    assert part == wanted
    assert (low % 1000, high % 1000) == (0, 0)
    # Other commands answer for all that was asked for, or not at all.
    with pytest.raises(UsageError, match="intervals at once takes about"):
        nsys2prv.what_if(gpt_ddp, ["transfer=0"], selection=asked, execution=execution)
    with pytest.raises(UsageError, match="intervals at once takes about"):
        nsys2prv.compare(gpt_ddp, gpt_ddp, selection=asked, execution=execution)


def test_a_part_without_device_activity_is_no_analysis(tmp_path: Path) -> None:
    """Nothing runs in the middle of the chosen time: the error is that of the memory, and not of that time."""
    report = Path("sample_reports/single/saxpy.sqlite")
    limits = Limits(batch_rows=16, interval_memory=4_000_000, range_memory=0)
    selection = nsys2prv.Selection(time=(0, 1_000_000_000))
    with pytest.raises(UsageError, match="intervals at once takes about"):
        nsys2prv.analyze(
            report, selection=selection, execution=nsys2prv.Execution(memory=WORKER, limits=limits), in_part=True
        )


def test_ranges_count_in_the_memory_of_an_analysis(gpt_ddp: list[Path]) -> None:
    """They are kept, but have no nodes in the dependency graph: each takes less than a call."""
    costly = Limits(interval_memory=0, range_memory=100_000_000)
    with pytest.raises(UsageError, match=r"intervals at once takes about \d+\.\d [MG]B of memory"):
        nsys2prv.analyze(gpt_ddp[0], execution=nsys2prv.Execution(memory=WORKER, limits=costly))
    without = nsys2prv.Selection(("kernels", "cuda_api"))
    nsys2prv.analyze(gpt_ddp[0], selection=without, execution=nsys2prv.Execution(memory=WORKER, limits=costly))


@pytest.mark.parametrize("work", [nsys2prv.analyze, nsys2prv.align], ids=["analyze", "align"])
def test_memory_limits_the_workers_of_a_command(
    work: Callable[..., object], mpi_halo: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int | None] = []

    def counting(jobs: int | None, dask: str | None = None) -> AbstractContextManager[Map[Any, Any]]:
        counts.append(jobs)
        return worker_map(jobs, dask)

    monkeypatch.setattr(extraction, "worker_map", counting)
    work(mpi_halo, execution=nsys2prv.Execution(jobs=4, memory=PARENT + int(1.2 * WORKER)))
    assert counts == [1]


@pytest.mark.parametrize(
    "how",
    [{"selection": EXPLAINED}, {"writing": nsys2prv.TraceOutput(summary=True)}],
    ids=["critical path", "summary"],
)
def test_a_translation_whose_analysis_memory_does_not_allow_is_refused(
    how: dict[str, Any], mpi_halo: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="intervals at once takes about"):
        nsys2prv.translate(
            mpi_halo, tmp_path / "trace", execution=nsys2prv.Execution(jobs=1, memory=WORKER, limits=EXPENSIVE), **how
        )
    assert left_in(tmp_path) == []


def test_the_options_of_memory_and_disk_reach_the_analysis(
    mpi_halo: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[object, object]] = []

    def asked(*_: object, execution: nsys2prv.Execution, **others: object) -> None:
        given.append((execution.memory, execution.spill_dir))
        raise UsageError("seen")

    monkeypatch.setattr(analyze_module, "analyze", asked)
    options = ["--memory", "2GB", "--spill-dir", str(tmp_path)]
    CliRunner().invoke(cli, ["analyze", *map(str, mpi_halo), *options])
    assert given == [(2_000_000_000, tmp_path)]

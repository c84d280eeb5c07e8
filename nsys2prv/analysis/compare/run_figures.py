"""One side of a comparison: the figures of a run that are compared, whether they were found now or are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.communication.waiting import ALL_OPERATIONS
from nsys2prv.analysis.compare.stated_finding import StatedFinding, stated_finding
from nsys2prv.analysis.compare.work_of_iterations import LaunchedWork, work_of_iterations, work_of_run
from nsys2prv.analysis.efficiency import NcclAs
from nsys2prv.analysis.iterations.iteration_lengths import iteration_lengths
from nsys2prv.model.units import COUNT, FRACTION, NUMBER, Unit, unit_of, words_of

# Scope of figures that are means over the steady iterations; what figures of the program's kernels are.
ITERATION_MEAN, CLASS_TIME, KERNEL_TIME = "iteration, mean", "class, total_ns", "kernel, total_ns"
EFFICIENCY, PHASE = "efficiency", "phase"
# Efficiency of iterations with the time between them, and the time from the begin of one to that of the next one.
WHOLE, LENGTH = "whole_iterations", "length_ns"


# Means of iterations whose names say too little.
OF_ITERATIONS = {
    LENGTH: "from one to the next",
    "total_ns": "on the host",
    **{f"{name}_ns": f"{name}, mean of ranks" for name in ("own", "exposed", "idle")},
}


class RunFigures(NamedTuple):
    """A run as comparisons see it.

    `programs`: that of each rank; `ranks`, `gpus`: how many there are; `nccl`, `window`: of the question that was
    answered; `kept`: number of iterations in the window; `figures`: (what, name) -> value, see `figures`; `iterations`:
    ITERATION; `findings`: the worst first; `analysis`: all of it, where it was asked for and the run is no stored one;
    `work`, `collectives`: of each kernel and graph, and of each operation of NCCL, in an iteration of the window
    (empty: no iterations, or a stored run); `recorded_work`: in all of the run; `active_ns`: from its first activity to
    its last, None of a stored run.
    """

    name: str
    programs: tuple[str, ...]
    ranks: int
    gpus: int
    nccl: NcclAs
    window: str
    kept: int
    iteration_pattern: str | None
    figures: Mapping[tuple[str, str], float]
    iterations: pl.DataFrame
    findings: tuple[StatedFinding, ...] = ()
    analysis: Analysis | None = None
    work: Mapping[str, LaunchedWork] = {}
    collectives: Mapping[str, LaunchedWork] = {}
    recorded_work: Mapping[str, LaunchedWork] = {}
    active_ns: int | None = None

    @property
    def only_copies(self) -> bool:
        """Return True if nothing but copies can count as communication: one rank, and no kernels of NCCL."""
        return self.ranks < 2 and (CLASS_TIME, "NCCL") not in self.figures

    @property
    def program(self) -> str:
        """Return the names of the programs of all tasks, each once."""
        return ", ".join(sorted({*self.programs}))


def run_figures(analysis: Analysis, name: str, whole: bool = False) -> RunFigures:
    """Return what a comparison needs of an analysis. `name`: what the run is called; `whole`: keep the analysis."""
    work = work_of_iterations(analysis)
    stated = tuple(
        stated_finding(one.id, str(one.severity), one.title, one.cost_ns, one.ranks, one.evidence)
        for one in analysis.findings
    )
    return RunFigures(
        name=name,
        programs=tuple(program_of(task.name) for task in analysis.run.tasks if task.is_rank),
        ranks=analysis.run.rank_count,
        gpus=len(analysis.run.devices),
        nccl=analysis.question.nccl,
        window=analysis.window.name,
        kept=len(analysis.window.iterations),
        iteration_pattern=analysis.iteration_pattern,
        figures=figures(analysis),
        iterations=analysis.iterations,
        findings=stated,
        analysis=analysis if whole else None,
        work=work.kernels,
        collectives=work.collectives,
        recorded_work=work_of_run(analysis.run),
        active_ns=analysis.run.active[1] - analysis.run.active[0],
    )


def program_of(task: str) -> str:
    """Return the name of a task's programs without its rank and process ids."""
    return re.sub(r":\d+\b", "", re.sub(r"^rank \d+ ", "", task))


def figures(analysis: Analysis) -> dict[tuple[str, str], float]:
    """Return the figures of one run to compare: (what, name) -> value. Times in ns, sums over all ranks.

    Without device activity there is no efficiency of devices: zeros would read as one.
    """
    e, of_mpi = analysis.efficiency, analysis.host.mpi
    every = analysis.overlap.filter(pl.col("operation") == ALL_OPERATIONS)
    values: dict[tuple[str, str], float] = {}
    steady = analysis.iterations.filter("steady")
    if steady.height:
        values[ITERATION_MEAN, LENGTH] = float(iteration_lengths(analysis.iterations).mean())
    values["window", "duration_ns"] = analysis.window.spans.total()
    if steady.height:
        times = ("total_ns", "own_ns", "exposed_ns", "idle_ns")
        values |= {(ITERATION_MEAN, n): float(steady[n].mean() or 0) for n in times}  # type: ignore[arg-type]
    values |= {("run", "ranks"): analysis.run.rank_count, ("devices", "count"): len(e.devices)}
    if e.measured:
        factors = ("parallel", "load_balance", "communication", "orchestration")
        values |= {(EFFICIENCY, name): getattr(e, name) for name in factors}
        if analysis.window.iterations:
            values[EFFICIENCY, WHOLE] = analysis.whole_efficiency.parallel
    if of_mpi is not None:
        values[EFFICIENCY, "mpi"] = of_mpi
    if e.measured:
        values["devices", "useful_ns"] = sum(t.useful_ns for t in e.devices)
        values["devices", "busy_ns"] = sum(t.busy_ns for t in e.devices)
    if every.height:
        columns = ("communication_ns", "overlapped_ns", "exposed_ns")
        values |= {("overlap", name): float(every[name].sum()) for name in columns}
    copied = analysis.memory.filter(pl.col("rank").is_null())
    if copied.height:
        values["memory", "total_ns"] = float(copied["total_ns"].sum())
    values |= {(PHASE, one.name): one.efficiency.parallel for one in analysis.phases if one.efficiency.measured}
    for table, what in ((analysis.classes, CLASS_TIME), (analysis.kernels, KERNEL_TIME)):
        over_all = table.filter(pl.col("rank").is_null())
        name = "family" if "family" in over_all.columns else "name"
        sums = over_all.group_by(name).agg(pl.col("total_ns").sum()).sort("total_ns", name, descending=[True, False])
        values |= {(what, n): float(t) for n, t in sums.rows()}
    # The first fit of a metric is over all GPUs that were sampled.
    over_all_gpus = {fit.metric: fit for fit in reversed(analysis.metrics)}
    for fit in reversed(over_all_gpus.values()):
        values |= {(fit.metric, " + ".join(c.classes)): c.mean for c in fit.classes if c.mean is not None}
    return values


def unit_of_figure(what: str, name: str) -> Unit:
    """Return the unit of a figure to compare."""
    if what in (EFFICIENCY, PHASE):
        return FRACTION
    if _named_here(what):
        return unit_of(name) or COUNT
    return unit_of(what) or NUMBER


def differs(what: str, name: str, difference: float | None) -> bool:
    """Return True if the digits of a figure show a difference of two runs; also if a run lacks it (None)."""
    return difference is None or float(unit_of_figure(what, name).text(difference)) != 0


def words_of_figure(what: str, name: str, of_iterations: bool = True, only_copies: bool = False) -> tuple[str, str]:
    """Return what a figure to compare is of, and its name, as words without the unit.

    `of_iterations`: sums are of an iteration, not of a window without any; `only_copies`: nothing but copies
    communicates in the runs.
    """
    if only_copies and (what, name) == (EFFICIENCY, "communication"):
        return what, "copies"
    if (what, name) == ("window", "duration_ns") and of_iterations:
        return ITERATION_MEAN, "from first to last activity"
    if what.endswith(", mean") and name in OF_ITERATIONS:
        return what, OF_ITERATIONS[name]
    of = "memory operations" if what == "memory" else what.removesuffix(", total_ns")
    return of, words_of(name) if _named_here(what) else name


def _named_here(what: str) -> bool:
    """Return False for figures that have names of the program, which say nothing."""
    return what in ("window", "run", "devices", "overlap", "memory", EFFICIENCY) or what.endswith(", mean")

"""The triangle: figures of `analyze`, of the shipped cfgs through real Paraver, and of SQL, over the same window.

A case is a run and what of it is translated; a figure is a cfg, with a method of truth.Run of its name and, where
`analyze` has the same figure, a line of ANALYZED.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import paramedir
import pytest
from runs import SAMPLED, reports_of
from truth import MS, OVERLAP, STEADY, Run, steady
from truth_rows import Table

import nsys2prv
from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.question import Question
from nsys2prv.families.registry import FAMILIES
from nsys2prv.intervals.spans import Spans
from nsys2prv.model import event_types
from nsys2prv.model.event_types import IDLE_CAUSE
from nsys2prv.paraver.cfg import CFGS, Cfg
from nsys2prv.paraver.cfg.hwcounters import METRIC_LABELS

pytestmark = pytest.mark.paraver

DEFAULT = tuple(f.name for f in FAMILIES if f.default)
EVERY = tuple(f.name for f in FAMILIES)
PLANES = {"kernel_durations_alone": False, "kernel_durations_beside_nccl": True}
# From `analyze`, whose figures have tests of their own: against SQL and a finer truth, and against slow ways.
ESTIMATED = "tensor_activity"
CRITICAL_PATH, IDLE_CAUSES = "critical_path_by_class", "idle_causes"
FROM_ANALYZE = (ESTIMATED, CRITICAL_PATH, IDLE_CAUSES)
BY_ITERATION = next(c for c in CFGS if c.name == "pop_by_iteration")
APART = (*PLANES, *FROM_ANALYZE, BY_ITERATION.name)
ANALYSES = [c.name for c in CFGS if c.folder == "analysis" and c.name not in APART]
STATES = ("Idle", "Only communication or copies", "Useful")
# Paraver prints ten decimals.
PRINTED = 1e-10


@dataclass(frozen=True)
class Case:
    """A run, the families of its trace, and whether every thread has a row."""

    run: str
    families: tuple[str, ...] = (*DEFAULT, "critical_path", "idle_causes")
    every_thread: bool = False
    window: str = "device"

    def __str__(self) -> str:
        if self.window == "steady":
            return f"{self.run}, steady"
        return f"{self.run}, everything" if self.every_thread else self.run


CASES = [
    pytest.param(case, id=str(case), marks=[] if case.run in SAMPLED else [pytest.mark.shared])
    for run in ("gpt-ddp", "mpi-halo", "mesh-tp-pp")
    # As translated without options but for the figures of an analysis, and with states, OS calls and all else.
    for case in (Case(run), Case(run, EVERY, every_thread=True))
]
each_case = pytest.mark.parametrize("case", CASES)

STEADY_CASES = [
    pytest.param(case, id=str(case), marks=[] if case.run in SAMPLED else [pytest.mark.shared])
    for case in (Case(run, window="steady") for run in STEADY)
]
# Runs with more texts of ranges than a trace labels one by one: all iterations have one label.
BY_PATTERN = {"fsdp"}
OF_ITERATIONS = {"iteration_time", "iteration_efficiency"}
every_case = pytest.mark.parametrize("case", [*CASES, *STEADY_CASES])


@dataclass(frozen=True)
class Shown:
    """A case in Paraver: its trace, the output of all cfgs, and that of the other parts of metrics' cfgs."""

    made: nsys2prv.Translation
    output: paramedir.Output
    metrics: paramedir.Output | None = None


METRICS = [c for c in CFGS if c.folder == "hwcounters"]


def parts(cfg: Cfg) -> Iterator[Cfg]:
    """The windows of a metric's cfg, one by one: paramedir prints the last histogram, that within kernels."""
    for folder, window in zip(("timeline", "over_gpus"), cfg.windows, strict=True):
        yield cfg._replace(folder=folder, windows=(window,), histograms=())


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Shown]:
    @cache
    def of(case: Case) -> Shown:
        paramedir.program()
        folder = tmp_path_factory.mktemp("case")
        made = nsys2prv.translate(
            reports_of(case.run),
            folder / "trace",
            selection=nsys2prv.Selection(case.families),
            options=nsys2prv.RunOptions(align="utc", every_thread=case.every_thread),
            writing=nsys2prv.TraceOutput(window=case.window),
        )
        assert made.prv is not None
        cfgs = CFGS if case.window == "device" else [c for c in CFGS if c.folder == "analysis"]
        output = paramedir.run(made.prv, cfgs, folder / "out")
        if case.window != "device":
            return Shown(made, output)
        metrics = paramedir.run_parts(made.prv, [p for c in METRICS for p in parts(c)], folder / "parts")
        return Shown(made, output, metrics)

    return of


@cache
def truth(run: str, window: str = "device") -> Run:
    return steady(run, reports_of(run)) if window == "steady" else Run(reports_of(run))


@cache
def analysed(run: str, question: Question) -> Analysis:
    return nsys2prv.analyze(reports_of(run), question=question, options=nsys2prv.RunOptions(align="utc"))


def named_alike(table: Table) -> Table:
    """Rows by rank or thread id, without names of programs and threads; columns of ranks alike."""
    rank, thread = re.compile(r"^(rank \d+) .*"), re.compile(r"^(?!CUDA|Metrics|rank).* (\d+)$")
    return {(thread.sub(r"\1", rank.sub(r"\1", row)), rank.sub(r"\1", column)): v for (row, column), v in table.items()}


SINGLE = [Case(run) for run in ("saxpy", "graph-node", "openmp")]


@pytest.mark.parametrize("case", [*CASES, *STEADY_CASES, *SINGLE], ids=str)
def test_no_cfg_makes_paraver_complain(case: Case, shown: Callable[[Case], Shown]) -> None:
    assert shown(case).output.complaints == ""


@every_case
def test_the_windows_are_equal(case: Case, shown: Callable[[Case], Shown]) -> None:
    made, expected = shown(case).made, truth(case.run, case.window).window
    assert made.prv is not None
    marked = nsys2prv.read_prv(made.prv).intervals(event_types.WINDOW.number).select("start", "end").unique()
    found = analysed(case.run, Question(window=case.window)).window.spans
    analyzed = list(zip(found.start.tolist(), found.end.tolist(), strict=True))
    # A trace with more families may begin earlier than the frames of the analysis.
    drawn = sorted(marked.rows())
    assert made.window_ns == (drawn[0][0], drawn[-1][1])
    assert from_first(drawn) == from_first(analyzed) == from_first(expected)


def from_first(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(start - spans[0][0], end - spans[0][0]) for start, end in spans]


@every_case
@pytest.mark.parametrize("name", ANALYSES)
def test_analysis_equals_sql(case: Case, name: str, shown: Callable[[Case], Shown]) -> None:
    if case.run in BY_PATTERN and name in OF_ITERATIONS:
        pytest.skip("all iterations have one label")
    expected: Table = getattr(truth(case.run, case.window), name)()
    if not expected:
        pytest.skip("the run has nothing of this kind")
    table = shown(case).output.table(f"analysis/{name}")
    found = over_all(table) if name == "pop_efficiency" else named_alike(table)
    assert found == pytest.approx(expected, rel=1e-11, abs=PRINTED)


def by_rank(column: str, figure: Callable[[Analysis], dict[int, float]]) -> Callable[[Analysis], Table]:
    return lambda found: {(f"rank {rank}", column): value for rank, value in figure(found).items() if value}


def useful(found: Analysis) -> dict[int, float]:
    return {t.device.rank: t.useful_ns for t in found.efficiency.devices}


def useful_ms(found: Analysis) -> dict[int, float]:
    return {rank: ns / MS for rank, ns in useful(found).items()}


def busy(found: Analysis) -> dict[int, float]:
    return {t.device.rank: t.busy_ns for t in found.efficiency.devices}


def pop(found: Analysis) -> Table:
    """Factors of the whole run in percent, with NCCL as communication."""
    whole, split = found.efficiency, found.explanation.factors
    assert split is not None
    factors = {
        "Parallel efficiency": whole.parallel,
        "Load balance": whole.load_balance,
        "Communication efficiency": whole.communication,
        "Serialization efficiency": split.serialization,
        "Transfer efficiency": split.transfer,
        "Orchestration efficiency": whole.orchestration,
    }
    return {("all", name): 100 * factor for name, factor in factors.items()}


def parallel_by_rank(found: Analysis) -> Table:
    percent = per_window(useful)(found)
    return {(f"rank {rank}", "Parallel efficiency"): value for rank, value in percent.items() if value}


def shares(found: Analysis) -> Table:
    """% of the window that each rank's device idles, moves data and is useful."""
    table: Table = {}
    window = found.efficiency.window_ns
    for t in found.efficiency.devices:
        parts = (window - t.busy_ns, t.busy_ns - t.useful_ns, t.useful_ns)
        table |= {(f"rank {t.device.rank}", STATES[n]): 100 * part / window for n, part in enumerate(parts) if part}
    return table


def per_window(figure: Callable[[Analysis], dict[int, float]]) -> Callable[[Analysis], dict[int, float]]:
    return lambda found: {rank: 100 * value / found.efficiency.window_ns for rank, value in figure(found).items()}


def communication(found: Analysis) -> Table:
    """% of the window without communication, with it exposed, and overlapped, by rank."""
    whole = found.overlap.filter(found.overlap["operation"] == "all").select("rank", "exposed_ns", "overlapped_ns")
    window = found.efficiency.window_ns
    parts = ((rank, (window - exposed - over, exposed, over)) for rank, exposed, over in whole.rows())
    names = (OVERLAP[0], OVERLAP[1], "overlapped")
    return {(f"rank {rank}", names[n]): 100 * ns / window for rank, times in parts for n, ns in enumerate(times) if ns}


def in_mpi(found: Analysis) -> dict[int, float]:
    """% of the window that each rank's main thread is in MPI."""
    return {t.rank: 100 * t.mpi_ns / found.efficiency.window_ns for t in found.host.ranks}


def of_kernels(found: Analysis) -> Table:
    """Time by kernel over all ranks, NCCL's apart."""
    rows = found.kernels.filter(found.kernels["rank"].is_null()).select("name", "total_ns").rows()
    return added((name, ns / MS) for name, ns in rows if not name.startswith("nccl"))


def of_classes(found: Analysis) -> Table:
    rows = found.kernels.filter(found.kernels["rank"].is_null()).select("class", "total_ns").rows()
    return added((name, ns / MS) for name, ns in rows)


def added(parts: Iterable[tuple[str, float]]) -> Table:
    table: Table = {}
    for column, value in parts:
        table["all", column] = table.get(("all", column), 0) + value
    return table


def waits(found: Analysis) -> Table:
    rows = found.explanation.waiting.select("rank", "waited_for", "waiting_ns").rows()
    return {(f"rank {rank}", f"rank {other}"): ns / MS for rank, other, ns in rows}


def on_critical_path(found: Analysis) -> Table:
    """Time of the critical path by rank and kind of work, compute by class."""
    path, rank = found.explanation.path_by("task", "kind", "family"), found.run.ranks
    texts = ((task, family or kind, ns) for task, kind, family, ns in path.rows())
    return {(f"rank {rank[task]}", text): ns / MS for task, text, ns in texts}


def causes(found: Analysis) -> Table:
    """Idle time of each device by cause."""
    whole = found.explanation.idle.filter(found.explanation.idle["span"].is_null())
    columns = {text: re.sub(r"\W", "_", f"{text}_ns") for text in IDLE_CAUSE.values.values()}
    cells = ((rank, text, ns) for text, c in columns.items() for rank, ns in whole.select("rank", c).rows())
    return {(f"rank {rank}", text): ns / MS for rank, text, ns in cells if ns}


def iterations(found: Analysis) -> Table:
    """Time of each iteration on the host, cut at the window."""
    pattern = found.iteration_pattern or ""
    rows = found.iterations.select("rank", "iteration", "start_ns", "total_ns").rows()
    cut = ((f"rank {r}", pattern.replace("#", str(n)), inside(found.window.spans, s, s + t)) for r, n, s, t in rows)
    return {(rank, name): time / MS for rank, name, time in cut if time > 0}


def inside(spans: Spans, start: int, end: int) -> int:
    """Time of spans from start to end."""
    return int(np.maximum(np.minimum(spans.end, end) - np.maximum(spans.start, start), 0).sum())


def estimates(found: Analysis) -> Table:
    """Of kernel classes on each GPU, those above 0."""
    kernels = set(found.kernels["class"])
    fits = [(f"GPU {found.run.devices[f.device].gpu}", f) for f in found.metrics if f.device is not None]
    means = ((gpu, n, c.mean) for gpu, f in fits for c in f.classes for n in c.classes if n in kernels)
    return {(gpu, n): round(mean, 2) for gpu, n, mean in means if mean and round(mean, 2)}


COMMUNICATION, USEFUL = Question(), Question(nccl="useful")
BY_CLASS = Question(by="class")


@dataclass(frozen=True)
class Analyzed:
    """A figure of `analyze`: the question, the table, and which cells of the cfg's are to equal it."""

    question: Question
    table: Callable[[Analysis], Table]
    cells: Callable[[Table], Table] = named_alike


def column(name: str) -> Callable[[Table], Table]:
    return lambda table: {key: value for key, value in named_alike(table).items() if key[1] == name}


def over_all(table: Table) -> Table:
    return added((name, value) for (_, name), value in table.items())


def beside_any(table: Table) -> Table:
    """Add what is beside one, two and more kernels."""
    cells = [(row, "overlapped" if name in OVERLAP[2:] else name, ns) for (row, name), ns in named_alike(table).items()]
    found: Table = {}
    for row, name, ns in cells:
        found[row, name] = found.get((row, name), 0) + ns
    return found


def by_gpu(table: Table) -> Table:
    """All streams of a GPU say the same."""
    cells = [(re.sub(r"CUDA-D(\d+)\.S\d+", r"GPU \1", row), name, value) for (row, name), value in table.items()]
    assert len({cell[:2] for cell in cells}) == len(set(cells))
    return {(row, name): value for row, name, value in cells}


ANALYZED = {
    "pop_efficiency": Analyzed(COMMUNICATION, pop, over_all),
    "pop_efficiency_by_rank": Analyzed(COMMUNICATION, parallel_by_rank, column("Parallel efficiency")),
    "useful_time": Analyzed(COMMUNICATION, by_rank("Useful time [ms]", useful_ms)),
    "parallel_efficiency": Analyzed(COMMUNICATION, by_rank("Parallel efficiency [%]", per_window(useful))),
    "parallel_efficiency_nccl_useful": Analyzed(USEFUL, by_rank("Parallel efficiency [%]", per_window(useful))),
    "device_busy": Analyzed(COMMUNICATION, by_rank("Busy [%]", per_window(busy))),
    "device_states": Analyzed(COMMUNICATION, shares),
    "device_states_nccl_useful": Analyzed(USEFUL, shares),
    "overlap_of_window": Analyzed(COMMUNICATION, communication, beside_any),
    "host_states": Analyzed(COMMUNICATION, by_rank("MPI", in_mpi), column("MPI")),
    "waiting_by_rank": Analyzed(COMMUNICATION, waits),
    CRITICAL_PATH: Analyzed(COMMUNICATION, on_critical_path),
    IDLE_CAUSES: Analyzed(COMMUNICATION, causes),
    "iteration_time": Analyzed(COMMUNICATION, iterations),
    "kernel_time": Analyzed(COMMUNICATION, of_kernels, over_all),
    "kernel_time_by_class": Analyzed(COMMUNICATION, of_classes, over_all),
    ESTIMATED: Analyzed(BY_CLASS, estimates, by_gpu),
}


@every_case
@pytest.mark.parametrize("name", ANALYZED)
def test_analysis_equals_analyze(case: Case, name: str, shown: Callable[[Case], Shown]) -> None:
    if case.run in BY_PATTERN and name in OF_ITERATIONS:
        pytest.skip("all iterations have one label")
    if name == ESTIMATED and case.window == "steady":
        pytest.skip("a trace's estimates are from all device activity")
    figure = ANALYZED[name]
    expected = figure.table(analysed(case.run, replace(figure.question, window=case.window)))
    if not expected:
        pytest.skip("the run has nothing of this kind")
    found = figure.cells(shown(case).output.table(f"analysis/{name}"))
    assert found == pytest.approx(expected, rel=1e-11, abs=PRINTED)


@pytest.mark.parametrize("case", STEADY_CASES)
def test_efficiencies_by_iteration_equal_sql(case: Case, shown: Callable[[Case], Shown], tmp_path: Path) -> None:
    """Each factor has a table. Iterations that overlap are one span of the window, and have its factors."""
    if case.run in BY_PATTERN:
        pytest.skip("all iterations have one label")
    prv = shown(case).made.prv
    assert prv is not None
    tables = [BY_ITERATION._replace(name=f"factor_{n}", histograms=(h,)) for n, h in enumerate(BY_ITERATION.histograms)]
    output = paramedir.run_parts(prv, tables, tmp_path / "factors")
    found = {
        (histogram.name.removesuffix(" [%]"), iteration): value
        for histogram, cfg in zip(BY_ITERATION.histograms, tables, strict=True)
        for (_, iteration), value in output.table(cfg.path.removesuffix(".cfg")).items()
    }
    expected = {
        (factor, name): value
        for names in truth(case.run, "steady").iterations_by_span()
        for (_, factor), value in Run(reports_of(case.run), names).pop_efficiency().items()
        for name in names
    }
    assert found == pytest.approx(expected, rel=1e-11, abs=PRINTED)


@pytest.mark.parametrize("name", PLANES)
def test_each_kernel_has_a_histogram_of_durations(name: str, shown: Callable[[Case], Shown]) -> None:
    run = truth("gpt-ddp")
    planes = shown(Case("gpt-ddp")).output.planes(f"analysis/{name}")
    kernels = {k.name for r in run.reports for k in r.kernels}
    expected = {kernel: table for kernel in kernels if (table := run.kernel_durations(kernel, PLANES[name]))}
    assert {kernel: table for kernel, table in planes.items() if table} == expected


def test_efficiencies_are_the_oracles(shown: Callable[[Case], Shown]) -> None:
    """Factors as the cfgs' descriptions say to read them off; ns per device with NCCL as useful, published with it."""
    output = shown(Case("gpt-ddp")).output
    efficiency, window = "Parallel efficiency [%]", 678_796_712
    useful = output.totals("analysis/parallel_efficiency", efficiency)
    with_nccl = output.totals("analysis/parallel_efficiency_nccl_useful", efficiency)
    busy = output.totals("analysis/device_busy", "Busy [%]")
    assert (useful["Average"], useful["Avg/Max"]) == pytest.approx((3.57, 0.9982), abs=5e-3)
    assert (with_nccl["Average"], with_nccl["Avg/Max"]) == pytest.approx((54.34, 0.5516), abs=5e-3)
    assert useful["Maximum"] / busy["Maximum"] == pytest.approx(0.0363, abs=5e-5)
    assert with_nccl["Maximum"] / busy["Maximum"] == pytest.approx(0.9997, abs=5e-5)
    assert busy["Maximum"] == pytest.approx(98.54, abs=5e-3)
    states = output.table("analysis/device_states_nccl_useful")
    ns = [round(states[row, column] / 100 * window) for row, column in sorted(states) if column == "Useful"]
    assert ns == [668_689_997, 260_519_366, 287_773_277, 258_510_498]


@each_case
@pytest.mark.parametrize("slug", METRIC_LABELS)
def test_metric_as_sampled_equals_sql(case: Case, slug: str, shown: Callable[[Case], Shown]) -> None:
    """Each GPU's row changes when and to what its samples do."""
    made = shown(case)
    run, scale = truth(case.run), scale_of(slug)
    origin = run.window[0][0] - made.made.window_ns[0]
    sampled = [times_values for r in run.reports if any((times_values := r.samples(metric_name(slug)))[1])]
    if not sampled:
        pytest.skip("the run has no such metric, or it is 0")
    rows: dict[str, list[tuple[float, float]]] = {}
    assert made.metrics is not None
    for name, begin, duration, value in made.metrics.lines(f"timeline/{slug}"):
        if duration:
            rows.setdefault(name, []).append((begin, value))
    found = [changes for changes in rows.values() if any(value for _, value in changes)]
    for changes, (times, values) in zip(found, sampled, strict=True):
        truly = {t - origin for t, v, b in zip(times, values, [None, *values], strict=False) if v != b}
        # What changes at the end of the trace lasts no time.
        assert {t for t in truly if t < made.made.duration_ns} <= {round(begin) for begin, _ in changes}
        held = [bisect_right(times, origin + round(begin)) - 1 for begin, _ in changes]
        expected = np.array([values[n] * scale if n >= 0 else 0.0 for n in held])
        assert np.array([value for _, value in changes]) == pytest.approx(expected, rel=0, abs=0.0051)


@each_case
@pytest.mark.parametrize("slug", METRIC_LABELS)
def test_mean_over_gpus_equals_sql(case: Case, slug: str, shown: Callable[[Case], Shown]) -> None:
    """At each change the mean of the values held on the GPUs that are sampled then."""
    made = shown(case)
    assert made.metrics is not None
    sampled = [r.samples(metric_name(slug)) for r in truth(case.run).reports]
    if not any(times for times, _ in sampled):
        pytest.skip("the run has no such metric")
    origin = truth(case.run).window[0][0] - made.made.window_ns[0]
    for _, begin, duration, value in made.metrics.lines(f"over_gpus/{slug}"):
        held = [v[n] for t, v in sampled if 0 <= (n := bisect_right(t, origin + int(begin)) - 1) < len(t) - 1]
        if duration:
            expected = scale_of(slug) * sum(held) / len(held) if held else 0.0
            assert value == pytest.approx(expected, abs=0.0051)


@each_case
@pytest.mark.parametrize("slug", METRIC_LABELS)
def test_metric_in_kernels_equals_sql(case: Case, slug: str, shown: Callable[[Case], Shown]) -> None:
    expected = {key: v * scale_of(slug) for key, v in truth(case.run).in_kernels(metric_name(slug)).items()}
    if not expected:
        pytest.skip("the run has no such metric")
    found = shown(case).output.table(f"hwcounters/{slug}")
    assert found == pytest.approx(expected, rel=1e-9, abs=PRINTED)


def scale_of(slug: str) -> float:
    return 1e-6 if METRIC_LABELS[slug].endswith("[MHz]") else 1.0


def metric_name(slug: str) -> str:
    """The metric's name in the sample reports."""
    return METRIC_LABELS[slug].replace("SM*", "SMs").replace("Tensor Active*", "Tensor Active [Throughput %]")

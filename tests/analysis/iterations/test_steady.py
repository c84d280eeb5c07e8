"""The steady part: which iterations count, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import truth
from analysis_cases import SAMPLES, SHARED, run_of, work_of
from exports import MAIN, PROCESS, export
from runs import parameters, reports_of
from truth import STEADY, without
from truth_rows import length, union

import nsys2prv
from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.frames import RANGES, Run, restricted
from nsys2prv.analysis.iterations import phases, window
from nsys2prv.analysis.question import Question
from nsys2prv.errors import UsageError
from nsys2prv.intervals.spans import one_span
from nsys2prv.run.iterations.steady import DEVICE, ITERATION_PART, TRACE, Window, startup_length, steady_window
from nsys2prv.run.iterations.steady import STEADY as STEADY_WINDOW
from nsys2prv.run.run_options import RunOptions


def steady(run: Run, pattern: str = "step #") -> Window:
    main = phases.main_ranges(run)
    steps = phases.occurrences(main, pattern)
    return window.steady(run, main, steps, phases.projected(run.work, steps))


def lasting(*lengths: int, pause: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Iterations of these lengths, one after the other."""
    end = np.cumsum(np.array(lengths) + pause) - pause
    return end - np.array(lengths), end


@pytest.mark.parametrize(
    ("lengths", "startup"),
    [
        ((100, 10, 10, 10), 1),  # compiled in the first
        ((100, 40, 10, 11, 10, 10), 2),
        ((10, 10, 10, 10), 0),
        ((12, 10, 11, 10), 0),  # a little longer is no start-up
        ((10, 10, 90, 10, 10, 10), 0),  # nor is a long one later
        ((100, 10, 10), 0),  # too few to tell
        ((50, 50, 50, 50), 0),
        ((10, 100, 10, 100, 10, 100), 0),
        ((100, 10, 10, 10, 90, 10, 10, 10, 110, 10), 0),  # what comes every fourth time is the loop's
        ((100, 100, 10, 10) * 3, 0),
        ((100, 10, 10, 10, 90, 10, 10, 10), 1),  # it came twice only
        ((100, 10, 10, 10, 90, 10, 10, 90, 10, 10), 1),  # it comes at any distance
        ((300, 10, 10, 10, 90, 10, 10, 10, 110, 10), 1),  # the first is compiled, too
    ],
)
def test_leading_iterations_that_are_much_longer_are_startup(lengths: tuple[int, ...], startup: int) -> None:
    assert startup_length(*lasting(*lengths)) == startup


@pytest.mark.parametrize(
    ("one", "whole"),
    [
        (Window(DEVICE, one_span(0, 1)), True),
        (Window(STEADY_WINDOW, one_span(0, 1)), True),
        (Window(STEADY_WINDOW, one_span(0, 1), ((0, 0),)), False),
        (Window(TRACE, one_span(0, 1)), False),
        (Window("step 5", one_span(0, 1)), False),
    ],
)
def test_what_hosts_did_before_belongs_to_windows_of_all_device_work(one: Window, whole: bool) -> None:
    assert one.of_all_device_work is whole


def test_a_task_of_which_no_time_is_known_is_not_late() -> None:
    """Task 2 has iterations, and no rows but those of its GPU; task 1 began to record within the first iteration."""
    rows = [(t, 0, n, n * 10, n * 10 + 10, None, None, False) for t in range(3) for n in range(2)]
    parts = pl.DataFrame(rows, schema=ITERATION_PART, orient="row")
    found = steady_window(parts, {0: (0, 20), 1: (5, 20)}, {n: n for n in range(3)}, one_span(0, 20))
    assert found.iterations == ((1, 0),)
    assert [(left.iteration, left.ranks) for left in found.left_out] == [(0, (1,))]


def test_each_iteration_that_is_not_whole_names_its_ranks() -> None:
    """Of twelve tasks one began to record late, two stopped within an iteration, and three lack another."""
    rows = [(t, 0, n, n * 10, n * 10 + 10, None, None, n == 1 and t in (0, 2)) for t in range(12) for n in range(4)]
    parts = pl.DataFrame(rows, schema=ITERATION_PART, orient="row")
    parts = parts.filter(~(pl.col("number") == 2) | ~pl.col("task").is_in([3, 4, 5]))
    times = {t: (5 if t == 11 else 0, 40) for t in range(12)}
    found = steady_window(parts, times, {n: n for n in range(12)}, one_span(0, 40))
    assert found.iterations == ((3, 0),)
    assert [(left.ranks, left.why) for left in found.left_out] == [
        ((11,), "rank 11 began to record 0 ms after the others"),
        ((0, 2), "ranks 0 and 2 stopped recording in it"),
        ((3, 4, 5), "not recorded on ranks 3 to 5"),
    ]


def test_of_a_chosen_part_a_rank_that_does_nothing_at_its_begin_is_not_late() -> None:
    """Task 1 does nothing at first; in the second iteration it is not known whether it recorded."""
    rows = [(t, 0, n, n * 10, n * 10 + 10, None, None, False) for t in range(2) for n in range(3)]
    parts = pl.DataFrame(rows, schema=ITERATION_PART, orient="row")
    times, ranks = {0: (0, 30), 1: (15, 30)}, {0: 0, 1: 1}
    none = parts.select("repeat", "number").clear()
    found = steady_window(parts, times, ranks, one_span(0, 30), cut=none)
    first, second = found.left_out
    assert (first.iteration, first.ranks, first.late) == (0, (), False)
    assert first.why == "the chosen part may begin within it"
    assert (second.iteration, second.ranks, second.late) == (1, (1,), True)


def test_iterations_before_a_long_pause_are_startup() -> None:
    """Two of warm-up, a pause of a hundred, six that are measured."""
    start, end = lasting(*[10] * 8)
    later = np.array([0, 0, *[100] * 6])
    assert startup_length(start + later, end + later) == 2


@pytest.mark.parametrize(("often", "startup"), [(2, 8), (3, 0)])
def test_pauses_that_come_again_and_again_are_no_end_of_startup(often: int, startup: int) -> None:
    """Long pauses before iterations 8, 24 and 28 of 32, or the first two of them."""
    start, end = lasting(*[10] * 32)
    later = np.cumsum([100 if n in (8, 24, 28)[:often] else 0 for n in range(32)])
    assert startup_length(start + later, end + later) == startup


# rank, start and end of each iteration; each launches a kernel at its start, which ends with it.
def two_ranks(one: list[tuple[int, int]], other: list[tuple[int, int]], first: int = 0) -> Run:
    ranges = [
        (task, task, start, end, f"step {n}")
        for task, steps in enumerate((one, other))
        for n, (start, end) in enumerate(steps, start=first)
    ]
    work = work_of([(task, start + 1, end - 1, "kernel", start + 1) for task, _, start, end, _ in ranges])
    return run_of(work, (), ranges)


def test_an_iteration_that_a_rank_began_before_another_recorded_is_left_out() -> None:
    run = two_ranks([(0, 60), (60, 70), (70, 80)], [(50, 60), (60, 70), (70, 80)])
    found = steady(run)
    assert found.iterations == ((1, 0), (2, 0))
    assert [(low, high) for low, high in zip(*found.spans, strict=True)] == [(61, 69), (71, 79)]
    assert [(one.iteration, one.ranks, one.why) for one in found.left_out] == [
        (0, (1,), "rank 1 began to record 0 ms after rank 0")
    ]


@pytest.mark.parametrize(
    ("lengths", "interrupted"),
    [
        ([10] * 8 + [300] + [10] * 3, [8]),  # compiled again
        ([10] * 18 + [300, 250], [18, 19]),
        ([10] * 8 + [150] + [10] * 3, []),  # long, as with a checkpoint: it counts
        ([10, 10, 10, 300, 10, 10, 10, 300], []),  # that comes again and again
        (([10] * 9 + [300]) * 4, []),  # at equal distances: the program writes its results
        ([10] * 9 + [300] + [10] * 9 + [300] + [10] * 12 + [300], [9, 19, 32]),
        ([10] * 20 + [300] * 3 + [10] * 17, [20, 21, 22]),  # one interruption
        ([10, 10, 300], []),  # too few to tell
    ],
)
def test_an_interrupted_iteration_that_outweighs_all_others_is_left_out(
    lengths: list[int], interrupted: list[int]
) -> None:
    end = np.cumsum(lengths)
    found = steady(two_ranks(*[list(zip((end - lengths).tolist(), end.tolist(), strict=True))] * 2))
    assert [one.iteration for one in found.left_out] == interrupted
    assert all(one.why.startswith("interrupted, 0 ") for one in found.left_out)


def test_an_iteration_that_a_rank_lacks_is_left_out() -> None:
    found = steady(two_ranks([(0, 10), (10, 20), (20, 30)], [(0, 10), (10, 20)]))
    assert (found.iterations, found.left_out[0][2:4]) == (((0, 0), (1, 0)), ((1,), "not recorded on rank 1"))


def test_an_iteration_that_is_open_at_the_end_is_left_out() -> None:
    """The range within it is open, too: both are drawn to the last event."""
    run = two_ranks([(0, 10), (10, 20), (20, 30)], [(0, 10), (10, 20), (20, 30)])
    inner = run.ranges.tail(1).with_columns(pl.col("start") + 1, text=pl.lit("forward"))
    found = steady(run._replace(ranges=run.ranges.vstack(inner)))
    assert found.iterations == ((0, 0), (1, 0))
    assert found.left_out[0][2:4] == ((1,), "rank 1 stopped recording in it")


def test_without_iterations_it_is_the_time_in_which_all_ranks_recorded() -> None:
    work = work_of([(0, 0, 80, "kernel"), (1, 40, 100, "kernel")])
    found = steady(run_of(work))
    assert (found.start, found.end, found.iterations) == (40, 80, ())


# The steady figures of runs that were measured by hand: iterations, parallel efficiency.
MEASURED = {
    "mpi-halo": (list(range(1, 12)), 0.4153),
    "gpt-ddp": ([4, 5, 6], 0.0906),
    "mesh-tp-pp": ([3, 4, 5], 0.0612),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", MEASURED)
def test_the_headline_is_that_of_the_steady_iterations(name: str) -> None:
    if not (SHARED / name).exists():
        pytest.skip("needs the shared reports")
    found = nsys2prv.analyze(SHARED / name, question=Question(), options=RunOptions(align="utc"))
    iterations, parallel = MEASURED[name]
    assert [number for number, _ in found.window.iterations] == iterations
    assert found.efficiency.parallel == pytest.approx(parallel, abs=5e-5)


@pytest.mark.parametrize("name", parameters(*STEADY))
def test_device_times_of_the_steady_iterations_are_those_of_sql(name: str) -> None:
    """Useful, busy and communicating time of each rank, with the efficiency that they make, over the same spans."""
    found = nsys2prv.analyze(reports_of(name), options=RunOptions(align="utc"))
    run = truth.steady(name, reports_of(name))
    spans = list(zip(*(times.tolist() for times in found.window.spans), strict=True))
    shift = run.window[0][0] - found.window.start
    assert [(start + shift, end + shift) for start, end in spans] == run.window
    useful = [length(union(r.kernels), run.window) for r in run.reports]
    busy = [length(union(r.all_kernels + r.memory), run.window) for r in run.reports]
    assert [(t.useful_ns, t.busy_ns) for t in found.efficiency.devices] == list(zip(useful, busy, strict=True))
    assert found.efficiency.window_ns == run.duration
    assert found.efficiency.parallel == pytest.approx(sum(useful) / len(useful) / run.duration, rel=1e-12)
    communicating = {n: time for n, r in enumerate(run.reports) if (time := length(union(r.nccl), run.window))}
    every = found.overlap.filter(pl.col("operation") == "all")
    assert dict(every.select("rank", "communication_ns").rows()) == communicating
    exposed = {
        n: length(without(union(run.reports[n].nccl), union(run.reports[n].kernels)), run.window) for n in communicating
    }
    assert dict(every.select("rank", "exposed_ns").rows()) == exposed


SPANS = {"gpt-ddp": 3, "mpi-halo": 11, "mesh-tp-pp": 1, "single/saxpy.sqlite": 1}


@pytest.mark.parametrize(("name", "count"), SPANS.items())
def test_the_trace_marks_the_spans_that_analyze_uses(name: str, count: int, tmp_path: Path) -> None:
    report = next((f / name for f in (SAMPLES, SHARED) if (f / name).exists()), None)
    if report is None:
        pytest.skip("needs the shared reports")
    made = nsys2prv.translate(report, tmp_path / "trace")
    assert made.prv is not None
    marked = nsys2prv.read_prv(made.prv).intervals(70000000).select("start", "end").unique().sort("start").rows()
    spans = nsys2prv.analyze(report).window.spans
    assert len(marked) == count
    assert marked == list(zip(spans.start.tolist(), spans.end.tolist(), strict=True))


@pytest.mark.parametrize(
    ("name", "part"), [("gpt-ddp", (0.51, 0.66)), ("gpt-ddp", (0.55, None)), ("mpi-halo", (1.9213, 1.9243))]
)
def test_a_chosen_time_leaves_out_what_it_cuts_from_trace_and_analysis(
    name: str, part: tuple[float, float | None], tmp_path: Path
) -> None:
    """Both have the same iterations, with the spans that these have in all of the run."""
    report = SAMPLES / name
    low, high = round(part[0] * 1e9), None if part[1] is None else round(part[1] * 1e9)
    chosen = nsys2prv.Selection(time=(low, high))
    whole, found = nsys2prv.analyze(report), nsys2prv.analyze(report, selection=chosen)
    assert {left.why for left in found.window.left_out} == {"the chosen time cuts it"}
    marked, summary = windows_of_trace(report, chosen, tmp_path / "trace")
    assert marked == spans_of(found.window)
    assert (summary.left_out, summary.iterations) == (found.window.left_out, found.window.iterations)
    assert spans_of(summary) == [(start - low, end - low) for start, end in marked]
    assert set(spans_of(found.window)) < set(spans_of(whole.window))
    predicted = nsys2prv.what_if(report, ["transfer=0"], selection=chosen)
    assert predicted.measured_ns == found.explanation.predictions[0].measured_ns


def test_an_iteration_whose_work_the_chosen_time_cuts_at_its_begin_is_not_steady() -> None:
    """It is found by work that repeats: it begins with a launch, which may have been before the chosen time."""
    work = work_of([(0, 20 * n + 20, 20 * n + 40, "kernel", 20 * n) for n in range(4)])
    steps = [(0, n, 0, 20 * n, 20 * n + 20, "kernel") for n in range(4)]
    found = pl.DataFrame(steps, schema=phases.OCCURRENCE, orient="row")
    part = restricted(run_of(work, ranks=1), 30, 100)
    steady_part = window.steady(part, part.ranges, found, phases.projected(part.work, found))
    assert [number for number, _ in steady_part.iterations] == [1, 2, 3]
    assert [(left.iteration, left.why) for left in steady_part.left_out] == [(0, "the chosen time cuts it")]


def windows_of_trace(report: Path, chosen: nsys2prv.Selection, output: Path) -> tuple[list[tuple[int, int]], Window]:
    """The spans that a trace marks (ns of the run), and the window of its summary (ns of the trace)."""
    made = nsys2prv.translate(report, output, selection=chosen, writing=nsys2prv.TraceOutput(summary=True))
    assert made.prv is not None
    assert made.analysis is not None
    assert chosen.time is not None
    marked = nsys2prv.read_prv(made.prv).intervals(70000000).select("start", "end").unique().sort("start").rows()
    low = chosen.time[0] or 0
    return [(start + low, end + low) for start, end in marked], made.analysis.window


def spans_of(window: Window) -> list[tuple[int, int]]:
    return list(zip(window.spans.start.tolist(), window.spans.end.tolist(), strict=True))


@pytest.mark.parametrize(
    ("high", "kept", "cut"),
    [
        (80, [1, 2], [0, 3]),  # the work of the fourth begins later
        (79, [1], [0, 2, 3]),  # its range is cut, and the work of the third
        (60, [1], [0, 2]),
        (59, [], [0, 1, 2]),
    ],
)
def test_iterations_that_a_chosen_time_cuts_are_not_steady(high: int, kept: list[int], cut: list[int]) -> None:
    """Ranges of 20 ns, of which the device works 20 ns later."""
    steps = [(0, 0, 20 * n, 20 * n + 20, f"step {n}") for n in range(4)]
    work = work_of([(0, 20 * n + 20, 20 * n + 40, "kernel", 20 * n + 5) for n in range(4)])
    part = restricted(run_of(work, ranges=steps, ranks=1), 10, high)
    found = analyze_run(part, Question()).window
    assert [number for number, _ in found.iterations] == kept
    assert [(left.iteration, left.why) for left in found.left_out] == [(n, "the chosen time cuts it") for n in cut]


@pytest.mark.parametrize(
    ("queued", "high", "kept", "cut"),
    [
        (20, 80, [1, 2], [0, 3]),  # the work of the fourth begins later
        (20, 60, [1], [0, 2]),
        (0, 79, [1, 2], [0, 3]),  # only the range of the fourth is cut, not its work
        (0, 80, [1, 2, 3], [0]),
    ],
)
def test_trace_summary_and_analysis_leave_out_work_that_is_queued_at_the_end(
    queued: int, high: int, kept: list[int], cut: list[int], tmp_path: Path
) -> None:
    """Steps of 20 us, of which the device works `queued` us later."""
    us = [(20_000 * n, 20_000 * n + queued * 1000) for n in range(5)]
    report = export(
        tmp_path / "r.sqlite",
        NVTX_EVENTS=(
            "start end eventType globalTid text",
            [(at, at + 20_000, 59, MAIN, f"step {n}") for n, (at, _) in enumerate(us)],
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start end globalTid nameId correlationId",
            [(at + 2000, at + 3000, MAIN, "cudaLaunchKernel", n) for n, (at, _) in enumerate(us)],
        ),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            "start end deviceId streamId correlationId globalPid shortName",
            [(at + 4000, at + 18_000, 0, 7, n, PROCESS, "k") for n, (_, at) in enumerate(us)],
        ),
    )
    chosen = nsys2prv.Selection(time=(10_000, high * 1000))
    found = nsys2prv.analyze(report, selection=chosen).window
    assert [number for number, _ in found.iterations] == kept
    assert [(left.iteration, left.why) for left in found.left_out] == [(n, "the chosen time cuts it") for n in cut]
    marked, summary = windows_of_trace(report, chosen, tmp_path / "trace")
    assert marked == spans_of(found)
    assert (summary.left_out, summary.iterations) == (found.left_out, found.iterations)


def test_the_summary_of_a_part_knows_when_ranks_began_to_record(tmp_path: Path) -> None:
    """Rank 0 waits for the others, which do not record yet: it is not blamed in the part, as in the analysis."""
    chosen = nsys2prv.Selection(time=(136_758_000, 570_665_000))
    found = nsys2prv.analyze(SAMPLES / "gpt-ddp", selection=chosen)
    output = nsys2prv.TraceOutput(summary=True)
    made = nsys2prv.translate(
        SAMPLES / "gpt-ddp", tmp_path / "trace", selection=chosen, writing=output, dry_run=True
    ).analysis
    assert made is not None
    low = 136_758_000
    assert {t: (s.start + low, s.end + low) for t, s in made.run.recorded.items()} == dict(found.run.recorded)
    assert [one.id for one in made.findings] == [one.id for one in found.findings]


@pytest.mark.parametrize(("low", "high", "kept"), [(20, 40, [1]), (20, 60, [1, 2])])
def test_an_iteration_that_fills_the_chosen_time_is_whole(low: int, high: int, kept: list[int]) -> None:
    """The range around it is cut to the same time, and the recording does not end there."""
    steps = [(0, 0, 20 * n, 20 * n + 20, f"step {n}") for n in range(4)]
    work = work_of([(0, 20 * n + 6, 20 * n + 19, "kernel", 20 * n + 5) for n in range(4)])
    part = restricted(run_of(work, ranges=[(0, 0, 0, 80, "train"), *steps], ranks=1), low, high)
    found = analyze_run(part, Question()).window
    assert [number for number, _ in found.iterations] == kept
    assert found.left_out == ()


def test_a_chosen_part_may_have_a_single_iteration() -> None:
    ranges = pl.DataFrame([(0, 0, 10, 20, "", "step 5"), (0, 0, 0, 40, "", "main")], schema=RANGES, orient="row")
    assert phases.find_iterations(ranges) is None
    assert phases.find_iterations(ranges, in_part=True) == "step #"


def test_a_named_range_can_be_the_window_of_a_trace(tmp_path: Path) -> None:
    fifth, other = (nsys2prv.TraceOutput(window=name) for name in ("iteration 5", "no such"))
    made = nsys2prv.translate(SAMPLES / "mpi-halo", tmp_path / "trace", writing=fifth)
    found = nsys2prv.analyze(SAMPLES / "mpi-halo", question=Question(window="iteration 5")).window
    assert made.window_ns == (found.start, found.end)
    with pytest.raises(UsageError, match="no report has an NVTX range 'no such'"):
        nsys2prv.translate(SAMPLES / "mpi-halo", tmp_path / "other", writing=other)

"""Phases and iterations: by hand, by SQL, and what NVIDIA's projection says otherwise."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from analysis_cases import Analysed, Find, iterations_of, run_of, sql, work_of

from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.facts.long_steps import step_begins
from nsys2prv.analysis.iterations import phases
from nsys2prv.analysis.iterations.iteration_lengths import iteration_lengths
from nsys2prv.analysis.iterations.iteration_times import compare_ranks
from nsys2prv.analysis.predict.change import parse_change
from nsys2prv.analysis.question import Question
from nsys2prv.commands.whatif import predictions_of
from nsys2prv.errors import UsageError

STEPS = [(0, 0, 0, 40, "step 1"), (0, 0, 40, 90, "step 2"), (0, 0, 5, 20, "forward")]


def test_work_belongs_to_the_range_that_was_open_when_it_was_launched() -> None:
    """Whatever thread launched it, and whenever it ran."""
    run = run_of(work_of([(0, 50, 60, "kernel", 39), (0, 60, 70, "kernel", 40), (0, 5, 6, "kernel", None)]), (), STEPS)
    found = phases.projected(run.work, phases.occurrences(phases.main_ranges(run), "step #"))
    assert found.select("start", "number").rows() == [(50, 1), (60, 2)]


def test_only_the_outermost_of_nested_ranges_counts() -> None:
    run = run_of(work_of([]), (), [(0, 0, 0, 50, "a"), (0, 0, 10, 20, "a"), (0, 0, 60, 70, "a")])
    found = phases.occurrences(phases.main_ranges(run), "a")
    assert found.select("number", "start", "end").rows() == [(0, 0, 50), (1, 60, 70)]


@pytest.mark.parametrize(
    ("texts", "pattern"),
    [
        (["step 1", "step 2"], "step #"),
        (["epoch 0 iter 7", "epoch 0 iter 8"], "epoch 0 iter #"),
        (["layer 0", "layer 1", "layer 0", "layer 1"], None),
        (["train", "train"], None),
        (["step 1"], None),
        (["step #1", "step #2"], "step ##"),
        (["C# 1\n", "C# 2\n"], "C# #\n"),
        (["1 of #", "2 of #"], None),
        (["fp32", "fp16"], None),
        (["epoch 0 iter 7", "epoch 1 iter 8"], "epoch # iter #"),
    ],
)
def test_iterations_are_ranges_whose_numbers_come_once(texts: list[str], pattern: str | None) -> None:
    run = run_of(work_of([]), (), [(0, 0, 10 * n, 10 * n + 5, text) for n, text in enumerate(texts)])
    assert phases.find_iterations(phases.main_ranges(run)) == pattern


@pytest.mark.parametrize(
    ("text", "pattern", "numbers"),
    [
        ("step #7", "step ##", [7]),
        ("C# 7", "C# #", [7]),
        ("layer #a", "layer #a", [0]),
        ("aten::mm, seq = 7", "aten::mm", [0]),
    ],
)
def test_a_text_may_have_the_sign_that_stands_for_a_number(text: str, pattern: str, numbers: list[int]) -> None:
    """In the table of ranges, too, whose patterns are made of the texts."""
    work = work_of([(0, 10, 20, "kernel", 5)])
    run = run_of(work, (), [(0, 0, 0, 30, text)], ranks=1)
    found = analyze_run(run, Question())
    assert phases.occurrences(phases.main_ranges(run), pattern)["number"].to_list() == numbers
    assert found.ranges.select("range", "launched", "device_ns").rows() == [(pattern, 1, 10)]


def test_texts_of_a_megabyte_number_iterations() -> None:
    """Too long for a regex of their pattern."""
    long = "long " * 200_000
    main = phases.main_ranges(run_of(work_of([]), (), [(0, 0, 10 * n, 10 * n + 5, f"{long}{n}") for n in (7, 8)]))
    pattern = phases.find_iterations(main)
    assert pattern == f"{long}#"
    assert phases.occurrences(main, pattern)["number"].to_list() == [7, 8]
    assert phases.occurrences(main, f"{long}8")["number"].to_list() == [0]


def test_phases_are_the_outermost_ranges_within_an_iteration() -> None:
    """Of rank 1 no step is known, and rank 2 has no range within its step."""
    names = ["step 1", "forward", "layer", "backward", "optimizer", "save", "step 2", "forward"]
    times = [(10, 40), (10, 20), (12, 18), (20, 40), (35, 45), (41, 43), (45, 90), (50, 60)]
    ranges = [(task, task, *at, name) for task in (0, 1) for at, name in zip(times, names, strict=True)]
    main = phases.main_ranges(run_of(work_of([]), (), [*ranges, (2, 2, 10, 40, "step 1")], ranks=3))
    steps = phases.occurrences(main, "step #").filter(pl.col("task") != 1)
    found = phases.phase_ranges(main.reverse(), steps)
    assert found.select("task", "number", "repeat", "text", "start", "end").rows() == [
        (0, 1, 0, "forward", 10, 20),
        (0, 1, 0, "backward", 20, 40),
        (0, 2, 0, "forward", 50, 60),
    ]


def test_times_of_an_iteration() -> None:
    work = work_of(
        [(0, 10, 20, "kernel", 6), (0, 15, 40, "nccl", 7), (0, 45, 50, "kernel", 30), (0, 60, 70, "kernel", 50)]
    )
    run = run_of(work, (), STEPS, ranks=1)
    row = iterations_of(run).row(0, named=True)
    assert {k: row[f"{k}_ns"] for k in ("total", "device", "compute", "communication", "exposed", "idle", "own")} == {
        "total": 40, "device": 40, "compute": 15, "communication": 25, "exposed": 20, "idle": 5, "own": 20,
    }  # fmt: skip
    assert (row["to_first_collective_ns"], row["forward_ns"], row["backward_ns"]) == (5, 30, None)


def test_times_of_a_rank_with_two_devices_are_the_mean_of_both() -> None:
    """Communication of one device is exposed, whatever the other one computes meanwhile."""
    work = work_of([(0, 10, 30, "kernel", 6, 0), (1, 10, 26, "nccl", 7, 0), (1, 26, 30, "kernel", 8, 0)])
    row = iterations_of(run_of(work, (), STEPS)).row(0, named=True)
    assert {k: row[f"{k}_ns"] for k in ("device", "compute", "communication", "exposed", "idle", "own", "forward")} == {
        "device": 20, "compute": 12, "communication": 8, "exposed": 8, "idle": 0, "own": 12, "forward": 20,
    }  # fmt: skip


def test_without_nccl_waiting_is_in_mpi() -> None:
    run = run_of(work_of([]), [(0, 0, 10, 25, "mpi", "MPI_Recv")], STEPS, ranks=1)
    row = iterations_of(run).row(0, named=True)
    assert (row["mpi_ns"], row["own_ns"]) == (15, 25)


@pytest.mark.parametrize(
    ("texts", "pattern", "names"),
    [
        (["step 3 of 10", "step 4 of 10"], "step # of 10", ["step 3 of 10", "step 4 of 10"]),
        (["epoch 2 step 0", "epoch 2 step 1"], "epoch # step #", ["epoch # step 0", "epoch # step 1"]),
        (["epoch 0 step 1", "epoch 1 step 0"], "epoch # step #", ["epoch # step 1", "epoch # step 0 (repeat 1)"]),
        ([f"step {8 * 10**20}", f"step {8 * 10**20 + 5}"], "step #", ["step 0", "step 5"]),
        (["step 0", "step 1"] * 2, "step #", ["step 0", "step 1", "step 0 (repeat 1)", "step 1 (repeat 1)"]),
        # Recorded from the middle of an epoch on.
        (
            ["step 3", *(f"step {n}" for n in range(4))],
            "step #",
            ["step 3", *(f"step {n} (repeat 1)" for n in range(4))],
        ),
        (["step 1", "step 2", "step 0"], "step #", ["step 0", "step 1", "step 2"]),
    ],
)
def test_an_iteration_has_the_last_number_and_the_work_of_its_own_range(
    texts: list[str], pattern: str, names: list[str]
) -> None:
    """Ten ns apart, four of them a kernel."""
    work = work_of([(0, 10 * n + 2, 10 * n + 6, "kernel", 10 * n) for n in range(len(texts))])
    ranges = [(0, 0, 10 * n, 10 * n + 5, text) for n, text in enumerate(texts)]
    forward = [(0, 0, 10 * n, 10 * n + 1, "forward") for n in range(len(texts))]
    found = analyze_run(run_of(work, (), [*ranges, *forward], ranks=1), Question(phases=(pattern,), iteration=pattern))
    assert [p.name for p in found.iteration_efficiency] == names
    # To the next one, of ten, or of its own work, of four.
    assert set(found.explanation.predictions[0].iterations["measured_ns"]) <= {4, 10}
    assert {p.efficiency.window_ns for p in found.iteration_efficiency} == {4}
    assert found.iterations.select(pl.col("device_ns", "forward_ns").unique()).rows() == [(4, 4)]
    assert found.phases[0].efficiency.window_ns == 4 * len(texts)


def test_iterations_that_overlap_count_what_others_run_meanwhile() -> None:
    """Copies of ten batches run ahead of kernels, of 10 ns each: the last batch was 9 % efficient, its device idle."""
    copies = [(0, 2 * n, 2 * n + 1, "copy", 2 * n) for n in range(10)]
    kernels = [(0, 10 * n + 3, 10 * n + 12, "kernel", 2 * n) for n in range(10)]
    work = sorted([*copies, *kernels], key=lambda one: one[1])
    ranges = [(0, 0, 2 * n, 2 * n + 2, f"batch {n}") for n in range(10)]
    found = analyze_run(run_of(work_of(work), (), ranges, ranks=1), Question())
    rows = [part.efficiency for part in found.iteration_efficiency]
    assert [row.window_ns for row in rows] == [12, *[10] * 9]
    assert [round(row.parallel, 2) for row in rows] == [0.75, *[0.9] * 9]
    # Between one kernel and the next there is nothing for 1 ns, and no copy after the first 20 ns.
    assert found.iterations["idle_ns"].max() <= 10
    assert found.explanation.predictions[0].iterations["measured_ns"].to_list() == [12, *[10] * 9]


def test_all_that_tells_the_time_of_iterations_that_overlap_tells_the_same() -> None:
    """The host pauses for 100 ns at the end of batch 5: lengths gave them to it, predictions to batch 6."""
    begin = [2 * n + 100 * (n > 5) for n in range(10)]
    copies = [(0, t, t + 1, "copy", t) for t in begin]
    kernels = [(0, 10 * n + 3 + 100 * (n > 5), 10 * n + 12 + 100 * (n > 5), "kernel", t) for n, t in enumerate(begin)]
    work = sorted([*copies, *kernels], key=lambda one: one[1])
    ranges = [(0, 0, t, end, f"batch {n}") for n, (t, end) in enumerate(zip(begin, [*begin[1:], 120], strict=True))]
    run = run_of(work_of(work), (), ranges, ranks=1)
    found = analyze_run(run, Question())
    lengths = [12, *[10] * 5, 110, *[10] * 3]
    assert iteration_lengths(found.iterations).tolist() == lengths
    assert [part.efficiency.window_ns for part in found.iteration_efficiency] == lengths
    assert step_begins(found)["begin"].to_list() == [0, *np.cumsum(lengths)[:-1].tolist()]
    for predicted in (found.explanation.predictions[0], predictions_of(run, Question(), [parse_change("kernel*1")])):
        assert predicted.iterations["measured_ns"].to_list() == lengths


def test_rows_say_which_time_a_number_comes_only_where_one_does_again() -> None:
    twice = run_of(work_of([]), (), [*STEPS, (0, 0, 95, 99, "step 1")])
    rows = analyze_run(twice, Question(iteration="step #")).as_json()["iterations"]["rows"]
    assert [(r["iteration"], r["repeat"], r["start_ns"]) for r in rows] == [(1, 0, 0), (2, 0, 40), (1, 1, 95)]
    once = analyze_run(run_of(work_of([]), (), STEPS), Question()).as_json()["iterations"]["rows"]
    assert all("repeat" not in r for r in once)


def test_the_slow_rank_is_named() -> None:
    """The average one is next to the mean of all, 11.8."""
    iteration = {"iteration": [1] * 6, "repeat": [0] * 3 + [1] * 3}
    table = pl.DataFrame({"rank": [0, 1, 2] * 2, **iteration, "own_ns": [10, 11, 20, 10, 10, 10]})
    found = compare_ranks(table)
    assert found is not None
    assert (found.fastest, found.average, found.slowest, found.slow) == (0, 1, 2, {2: 1})
    assert compare_ranks(table.filter(pl.col("rank") == 0)) is None


@pytest.mark.parametrize("wrong", [{"phases": ("nothing",)}, {"iteration": "nothing #"}, {"window": "nothing"}])
def test_a_range_that_no_rank_has_is_refused_with_those_it_has(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="step #"):
        analyze_run(run_of(work_of([]), (), STEPS), Question(**wrong))  # type: ignore[arg-type]


def test_backward_is_what_its_process_launched(analysed: Analysed, report: Find) -> None:
    """By thread `backward` of step 3 is one kernel of 736 ns; by process 242 kernels of 473 ms (real-reports)."""
    analysis = analysed("gpt-ddp")
    run = analysis.run
    found = phases.occurrences(phases.main_ranges(run), "backward")
    own = phases.projected(run.work, found).filter((pl.col("task") == 0) & (pl.col("number") == 0))
    kernels = own.filter(pl.col("kind") != "copy")
    [(count,)] = sql(
        report("gpt-ddp/gpt-ddp.0.0.sqlite"),
        """SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r
        USING (correlationId) WHERE r.start BETWEEN (SELECT min(start) FROM NVTX_EVENTS WHERE text = 'backward')
        AND (SELECT "end" FROM NVTX_EVENTS WHERE text = 'backward' ORDER BY start LIMIT 1)""",
    )
    assert kernels.height == count == 242
    assert round((kernels["end"].max() - kernels["start"].min()) / 1e6) == 473  # type: ignore[operator]


def test_iterations_of_real_runs_are_found(analysed: Analysed) -> None:
    names = {run: analysed(run).iteration_pattern for run in ("gpt-ddp", "mpi-halo", "mesh-tp-pp")}
    assert names == {"gpt-ddp": "step #", "mpi-halo": "iteration #", "mesh-tp-pp": "step #"}


def test_the_most_loaded_rank_of_the_halo_is_slow_in_every_iteration(analysed: Analysed) -> None:
    """Rank n computes n + 1 times as much (capture program)."""
    ranks = analysed("mpi-halo").ranks
    assert ranks is not None
    assert (ranks.slowest, ranks.fastest, ranks.slow) == (3, 0, {3: 12})

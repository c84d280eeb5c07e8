"""Delays of single iterations: who was late, where, by how much; and no word where nobody was."""

from __future__ import annotations

import polars as pl
import pytest
from analysis_cases import run_of, work_of

from nsys2prv.analysis.communication.delays import delays
from nsys2prv.analysis.frames import CALLS, AnalyzedTask, Run
from nsys2prv.analysis.iterations import phases

MS = 1_000_000


def run(load: dict[tuple[int, int], int], iterations: int = 6, waits: int = 0) -> Run:
    """Two ranks, iterations of 100 ms: `load` for 1 ms (or as given by rank and iteration, in ms), then `forward`.

    `waits`: how long of `load` in iteration 2 rank 1 waits in a synchronization (ms).
    """
    ranges, calls = [], []
    for task in (0, 1):
        for n in range(iterations):
            start = 100 * MS * n
            loaded = start + load.get((task, n), 1) * MS
            ranges += [
                (task, task, start, start + 99 * MS, f"step {n}"),
                (task, task, start, loaded, "load"),
                (task, task, loaded, loaded + 50 * MS, "forward"),
            ]
            calls.append((task, task, start, start + 1, "cuda", "cudaLaunchKernel"))
    if waits:
        calls.append((1, 1, 200 * MS, (200 + waits) * MS, "synchronization", "Stream synchronize"))
    return run_of(work_of([]), calls, ranges)


def found(made: Run) -> list[tuple[object, ...]]:
    main = phases.main_ranges(made)
    table = delays(made, main, phases.occurrences(main, "step #"))
    return table.select("rank", "iteration", "phase", pl.col("delay_ns") // MS).rows()


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ({}, []),
        ({(1, 2): 9}, [(1, 2, "load", 8)]),
        ({(0, 5): 4}, [(0, 5, "load", 3)]),
        ({(0, 3): 7, (1, 3): 7}, []),  # both: nobody was late
        ({(1, n): 9 for n in range(6)}, []),  # always: no delay of a single iteration
        ({(1, 2): 2}, []),  # a hundredth of the iteration
    ],
)
def test_the_late_rank_is_named_with_iteration_phase_and_amount(
    load: dict[tuple[int, int], int], expected: list[tuple[object, ...]]
) -> None:
    assert found(run(load)) == expected


def test_a_helper_process_that_begins_late_hides_no_delay() -> None:
    made = run({(1, 2): 9})
    helper = AnalyzedTask(2, "compiler", "host", is_rank=False)
    late = pl.DataFrame([(2, 2, 300 * MS, 301 * MS, "cuda", "cuInit")], schema=CALLS, orient="row")
    joined = made._replace(tasks=(*made.tasks, helper), calls=pl.concat([made.calls, late]))
    assert found(joined) == [(1, 2, "load", 8)]


def test_waiting_is_no_delay_of_ones_own() -> None:
    assert found(run({(1, 2): 9}, waits=8)) == []


def test_another_thread_that_waits_meanwhile_hides_no_delay() -> None:
    """Thread 0 of each rank waits for its device while the thread of the ranges works: 50 ms longer in iteration 2."""
    ranges, calls = [], []
    for task in (0, 1):
        for n in range(4):
            end = 100 * MS * n + (90 if (task, n) == (1, 2) else 40) * MS
            ranges.append((task, 2 * task + 1, 100 * MS * n, end, f"step {n}"))
            calls.append((task, 2 * task, 100 * MS * n, end, "synchronization", "Stream synchronize"))
    assert found(run_of(work_of([]), calls, ranges)) == [(1, 2, "(outside its ranges)", 50)]


def test_slow_kernels_are_a_delay_of_the_time_in_which_any_of_them_runs() -> None:
    """Two kernels at once, of 10 ms; those of rank 1 take 20 ms in iteration 2."""
    work = [
        (task, begin + at * MS, begin + (at + (20 if (task, n) == (1, 2) else 10)) * MS, "kernel", begin + at)
        for task in (0, 1)
        for n, begin in enumerate(range(0, 600 * MS, 100 * MS))
        for at in (20, 25)
    ]
    made = run({})._replace(work=work_of(work))
    assert found(made) == [(1, 2, "(kernels)", 10)]


def test_two_iterations_do_not_tell_what_is_usual() -> None:
    assert found(run({(1, 1): 9}, iterations=2)) == []

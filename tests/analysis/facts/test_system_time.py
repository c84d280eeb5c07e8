"""Threads that wait for the system, and threads that wait for each other."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from analysis_cases import run_of, work_of

from nsys2prv.analysis.facts.system_time import system_time
from nsys2prv.intervals.grouped import Axis
from nsys2prv.intervals.spans import Span

MAIN, BACKWARD = 0, 1
Call = tuple[int, int, int, str]
# Times of the pictures are in units of 100 us.
UNIT = 100_000


@pytest.mark.parametrize(
    ("calls", "launches", "main", "backward"),
    [
        # (row, start, end, kind); (launched, row); spans in which each thread waits for the system.
        ([(MAIN, 10, 30, "os")], [(5, MAIN)], [(10, 30)], []),
        ([(MAIN, 10, 30, "os"), (MAIN, 15, 20, "cuda")], [(5, MAIN)], [(10, 15), (20, 30)], []),
        # The main thread launches, works and reads a file, while the other one waits for it.
        (
            [(BACKWARD, 10, 90, "os"), (MAIN, 70, 80, "os")],
            [(40, MAIN), (95, BACKWARD), (99, MAIN)],
            [(70, 80)],
            [(70, 80)],
        ),
        # It does so for a time in which a thread is woken.
        (
            [(BACKWARD, 10, 90, "os"), (MAIN, 70, 75, "os")],
            [(40, MAIN), (95, BACKWARD), (99, MAIN)],
            [(70, 75)],
            [],
        ),
        # The main thread waits for the device meanwhile, not for the system.
        ([(BACKWARD, 10, 90, "os"), (MAIN, 70, 80, "cuda")], [(40, MAIN), (95, BACKWARD), (99, MAIN)], [], []),
        # The other thread launched last, and waits for work since then.
        ([(MAIN, 50, 90, "os"), (BACKWARD, 30, 99, "os")], [(25, BACKWARD)], [(50, 90)], [(30, 99)]),
        # It may wake a thread that waited before it launched, but not one that begins to wait later.
        ([(MAIN, 20, 29, "os"), (BACKWARD, 26, 99, "os")], [(25, BACKWARD)], [], [(26, 99)]),
        ([(MAIN, 27, 30, "os"), (BACKWARD, 26, 99, "os")], [(25, BACKWARD)], [(27, 30)], [(26, 99)]),
        # A thread that launched nothing since the call began works all the same, as before its first launch.
        ([(BACKWARD, 50, 90, "os")], [(40, MAIN), (95, BACKWARD), (99, MAIN)], [], []),
        # Nothing is recorded of it later: it may have ended.
        ([(BACKWARD, 50, 90, "os")], [(40, MAIN), (95, BACKWARD)], [], [(50, 90)]),
    ],
    ids=[
        "alone",
        "in CUDA",
        "hands over",
        "wakes",
        "waits for the device",
        "both wait",
        "is woken",
        "waits later",
        "works",
        "ended",
    ],
)
def test_a_thread_that_waits_for_a_working_one_does_not_wait_for_the_system(
    calls: list[Call], launches: list[tuple[int, int]], main: list[tuple[int, int]], backward: list[tuple[int, int]]
) -> None:
    work = work_of([(0, at * UNIT, (at + 1) * UNIT, "kernel", at * UNIT) for at, _ in launches])
    work = work.with_columns(caller_row=pl.Series([row for _, row in launches], dtype=work.schema["caller_row"]))
    run = run_of(work, [(0, row, start * UNIT, end * UNIT, kind, "call") for row, start, end, kind in calls], ranks=1)
    run = run._replace(active=Span(0, 100 * UNIT), duration=100 * UNIT)
    axis = Axis(0, 100 * UNIT, 2)
    found = axis.apart(system_time(run, np.array([MAIN, BACKWARD]), axis))
    in_units = [[(times // UNIT).tolist() for times in spans] for spans in found]
    assert [list(zip(*times, strict=True)) for times in in_units] == [main, backward]


def test_threads_of_other_processes_do_not_count() -> None:
    work = work_of([(0, 40, 41, "kernel", 40, 1)]).with_columns(caller_row=pl.lit(1, pl.Int32))
    run = run_of(work, [(0, 0, 10, 90, "os", "poll")])
    spans = system_time(run, np.array([0]), Axis(0, 100, 1))
    assert (spans.start.tolist(), spans.end.tolist()) == ([10], [90])

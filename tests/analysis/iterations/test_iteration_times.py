"""Times and efficiencies of iterations of random runs, against sets of instants in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl
from analysis_cases import Activity, iterations_of, run_of, work_of
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys2prv.analysis.efficiency import efficiency, efficiency_by_occurrence
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.iterations import phases
from nsys2prv.analysis.iterations.iteration_times import ITERATION

# By rank: number, repeat, start, end. Rank 1 has no second step 2.
STEPS = [(0, 1, 0, 0, 20), (0, 2, 0, 20, 45), (0, 2, 1, 50, 90), (1, 1, 0, 3, 30), (1, 2, 0, 31, 60)]
# Outermost ranges by rank, and one within another.
FORWARD = [(0, 2, 9), (0, 18, 25), (0, 55, 60), (1, 5, 25), (1, 35, 40)]
NESTED = (1, 6, 9)
RANGES = [
    *((rank, 0, start, end, f"step {number}") for rank, number, _, start, end in STEPS),
    *((rank, 0, start, end, "forward") for rank, start, end in [*FORWARD, NESTED]),
]
STEADY = (2, 0)

# Work launched at any time, at most 40 ns before it starts. Ranks and devices cross.
KINDS = st.sampled_from(["kernel", "nccl", "graph", "copy"])
TIMES = st.integers(0, 80), st.integers(0, 40), st.integers(1, 15)
WORK = st.lists(st.tuples(*TIMES, KINDS, st.integers(0, 1), st.integers(0, 1)), max_size=30)
CALLS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 90), st.integers(1, 20)), max_size=6)


def run(work: Iterable[tuple[int, int, int, str, int, int]], calls: Iterable[tuple[int, int, int]]) -> Run:
    rows: list[Activity] = [
        (device, launched + wait, launched + wait + length, kind, launched, task)
        for launched, wait, length, kind, device, task in work
    ]
    in_mpi = [(task, 0, start, start + length, "mpi", "MPI_Send") for task, start, length in calls]
    return run_of(work_of(sorted(rows, key=lambda row: row[1])), in_mpi, RANGES)


def instants(spans: Iterable[tuple[int, int]]) -> set[int]:
    return {t for start, end in spans for t in range(start, end)}


def on_devices(work: Iterable[tuple[Any, ...]]) -> set[tuple[int, int]]:
    """Instants and devices at which work runs."""
    return {(t, device) for _, _, start, end, _, device in work for t in range(start, end)}


def expected(found: Run) -> list[dict[str, object]]:
    """Return the rows of ITERATION. Times of several devices are their mean."""
    work = [
        one
        for one in found.work.select("task", "launched", "start", "end", "kind", "device").rows()
        if any(rank == one[0] and start <= one[1] < end for rank, _, _, start, end in STEPS)
    ]
    on_device = any(one[4] == "nccl" for one in work)
    used = {rank: {one[5] for one in work if one[0] == rank} for rank in (0, 1)}
    rows: list[dict[str, object]] = []
    for rank, number, repeat, start, end in sorted(STEPS, key=lambda step: (step[2], step[1], step[0])):
        own = [one for one in work if one[0] == rank and start <= one[1] < end]
        busy, computing, communicating, forward = (
            on_devices(one for one in own if chosen(one))
            for chosen in (
                lambda one: True,
                lambda one: one[4] in ("kernel", "graph"),
                lambda one: one[4] == "nccl",
                lambda one, rank=rank: any(r == rank and f <= one[1] < t for r, f, t in FORWARD),
            )
        )
        devices = len(used[rank])
        mpi = instants((a, b) for task, a, b in found.calls.select("task", "start", "end").rows() if task == rank)
        first = min((t for t, _ in busy), default=0)
        device = max(t for t, _ in busy) + 1 - first if busy else 0
        every = on_devices(found.work.select("task", "launched", "start", "end", "kind", "device").rows())
        running = {(t, on) for t, on in every if first <= t < first + device and on in used[rank]}
        waiting = len(mpi & instants([(start, end)]))
        exposed = len(communicating - computing) // devices if devices else 0
        rows.append(
            {
                "rank": rank,
                "iteration": number,
                "repeat": repeat,
                "steady": (number, repeat) == STEADY,
                "start_ns": start,
                "total_ns": end - start,
                "own_ns": device - exposed if on_device else end - start - waiting,
                "device_ns": device,
                "compute_ns": len(computing) // devices if devices else 0,
                "communication_ns": len(communicating) // devices if devices else 0,
                "exposed_ns": exposed,
                "idle_ns": device - len(running) // devices if devices else 0,
                "mpi_ns": waiting,
                "to_first_collective_ns": min(t for t, _ in communicating) - first if communicating else None,
                "forward_ns": len(forward) // devices if forward else None,
            }
        )
    return rows


@settings(max_examples=150, deadline=None)
@given(WORK, CALLS)
def test_times_are_those_of_sets_of_instants(
    work: list[tuple[int, int, int, str, int, int]], calls: list[tuple[int, int, int]]
) -> None:
    found = run(work, calls)
    table = iterations_of(found, "steady", (STEADY,))
    assert table.schema == ITERATION
    rows = expected(found)
    assert table.select(list(rows[0])).to_dicts() == rows


@settings(max_examples=50, deadline=None)
@given(WORK, st.sampled_from(["useful", "communication"]))
def test_the_efficiency_of_an_iteration_is_that_of_its_work_alone(
    work: list[tuple[int, int, int, str, int, int]], nccl: str
) -> None:
    found = run(work, ())
    launched = phases.projected(found.work, phases.occurrences(phases.main_ranges(found), "step #"))
    alone = {}
    for repeat, number in sorted(launched.select("repeat", "number").unique().rows()):
        own = launched.filter(pl.col("repeat") == repeat, pl.col("number") == number)
        alone[repeat, number] = efficiency(own, found.devices, phases.phase_window(own), nccl)  # type: ignore[arg-type]
    by_columns = efficiency_by_occurrence(launched, found.devices, nccl)  # type: ignore[arg-type]
    assert list(by_columns.items()) == list(alone.items())

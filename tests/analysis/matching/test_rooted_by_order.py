"""Broadcasts and Reduces without payload: which kernels are one operation, and which ranks wait for which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from analysis_cases import run_of

from nsys2prv.analysis.frames import PART, WORK, Run, RunClocks
from nsys2prv.analysis.matching.parts_by_order import parts_by_order

US, STEPS, STEP = 1_000, 20, 1_000_000
NONE = pl.DataFrame(schema=PART)
ALL_REDUCE, ALL_GATHER = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_AllGather_RING_LL"
BROADCAST, REDUCE = "ncclDevKernel_Broadcast_RING_LL", "ncclDevKernel_Reduce_Sum_f32_RING_LL"
# A kernel of a step: task, row of its stream, begin and end (us), and name.
Kernel = tuple[int, int, int, int, str]
# One kernel of an operation: task, when it began, until when it waited, and for which task.
Waits = tuple[int, int, int, int]


def run_with(*kernels: Kernel, clocks: str = "aa", steps: Sequence[int] = range(STEPS), error: int = 0) -> Run:
    """Return a run of steps of a millisecond with the same kernels."""
    rows = [
        (task, row, STEP * step + begin * US, STEP * step + end * US, name)
        for step in steps
        for task, row, begin, end, name in kernels
    ]
    run = run_of_kernels(rows, clocks)
    return run._replace(clocks=run.clocks._replace(error=error))


def run_of_kernels(rows: Sequence[Kernel], clocks: str) -> Run:
    """Return a run of kernels, with times in ns."""
    nothing = (None, None, None, False, None, None)
    work = [
        (task, task, row, begin, end, "nccl", name, "NCCL", "NCCL", None, None, None, begin, *nothing)
        for task, row, begin, end, name in rows
    ]
    ordered = pl.DataFrame(work, schema=WORK, orient="row").sort("start", "row")
    return run_of(ordered, ranks=len(clocks))._replace(clocks=RunClocks(of_task=tuple(map(ord, clocks))))


def found_in(run: Run, name: str) -> pl.DataFrame:
    """Return PART of the kernels of a name, in order of operation and begin."""
    own = run.work.filter(pl.col("name") == name).select("row", began="start")
    return parts_by_order(run, NONE).join(own, on=["row", "began"]).sort("operation", "began", "task")


def groups(run: Run, name: str) -> list[list[int]]:
    """Return the tasks of the operations of a name, each set of tasks once."""
    found = found_in(run, name).group_by("operation").agg(pl.col("task").sort())["task"]
    return sorted(found.unique().to_list())


def waits(run: Run, name: str) -> list[list[Waits]]:
    """Return the waits (us, in its step) of the kernels of each operation of a name, each different operation once."""
    ready = pl.min_horizontal("last", "ended")
    times = [(one % STEP // US).alias(c) for c, one in (("begin", pl.col("began")), ("ready", ready))]
    found = found_in(run, name).select("operation", "task", *times, "waited_for").rows()
    said: dict[int, list[Waits]] = {}
    for operation, *rest in found:
        said.setdefault(operation, []).append(tuple(rest))
    return [list(one) for one in sorted({tuple(one) for one in said.values()})]


REDUCED = tuple((n, n, 700, 900, ALL_REDUCE) for n in range(4))


def test_a_broadcast_whose_root_is_done_before_the_others_begin() -> None:
    """
    rank 0 (root)  100 |tt| 104         300 |tt| 304
    rank 1   200 |tt| 204      250 |wwwwwwwwwttt| 306
    """
    first = (0, 0, 100, 104, BROADCAST), (1, 1, 200, 204, BROADCAST)
    second = (0, 0, 300, 304, BROADCAST), (1, 1, 250, 306, BROADCAST)
    run = run_with(*first, *second, *REDUCED[:2])
    assert found_in(run, BROADCAST).height == run.work.filter(pl.col("name") == BROADCAST).height
    assert waits(run, BROADCAST) == [
        [(0, 100, 100, 0), (1, 200, 200, 1)],
        [(1, 250, 300, 0), (0, 300, 300, 0)],
    ]
    roles = found_in(run, BROADCAST).select("task", "awaited", "waits").unique().sort("task", "awaited")
    assert roles.rows() == [(0, True, True), (1, False, True), (1, True, True)]


def test_a_reduce_whose_senders_are_done_before_the_root_begins() -> None:
    """
    rank 0 (root)         300 |tt| 304     500 |wwwwwwwwwtt| 604
    rank 1  100 |tt| 104                              600 |tt| 603
    """
    first = (0, 0, 300, 304, REDUCE), (1, 1, 100, 104, REDUCE)
    second = (0, 0, 500, 604, REDUCE), (1, 1, 600, 603, REDUCE)
    run = run_with(*first, *second, *REDUCED[:2])
    assert waits(run, REDUCE) == [
        [(0, 500, 600, 1), (1, 600, 600, 1)],
        [(1, 100, 100, 1), (0, 300, 300, 0)],
    ]


def test_ranks_wait_for_those_that_hand_the_data_on() -> None:
    """Rank 0 is the root and rank 1 hands the data to rank 2, which waits for it; rank 3 comes when all is done."""
    kernels = [(0, 0, 100, 104), (1, 1, 300, 305), (2, 2, 50, 306), (3, 3, 500, 504)]
    run = run_with(*((*kernel, BROADCAST) for kernel in kernels), *REDUCED, clocks="aaaa")
    assert waits(run, BROADCAST) == [[(2, 50, 300, 1), (0, 100, 100, 0), (1, 300, 300, 1), (3, 500, 500, 3)]]
    awaited = found_in(run, BROADCAST).select("task", "awaited").unique().sort("task")
    assert awaited["awaited"].to_list() == [True, True, True, False]


def test_two_communicators_in_step_are_not_mixed() -> None:
    """Ranks 0 and 1 and ranks 2 and 3 do the same at one time; only the ends of their AllReduces differ."""
    kernels = [(0, 0, 100, 104), (1, 1, 200, 204), (2, 2, 101, 105), (3, 3, 199, 203)]
    reduced = [(0, 0, 700, 800), (1, 1, 700, 802), (2, 2, 700, 900), (3, 3, 700, 901)]
    run = run_with(*((*one, BROADCAST) for one in kernels), *((*one, ALL_REDUCE) for one in reduced), clocks="aaaa")
    assert groups(run, BROADCAST) == groups(run, ALL_REDUCE) == [[0, 1], [2, 3]]


def test_streams_that_serve_two_communicators_tell_nothing() -> None:
    """Ranks 0 and 1 share AllReduces, and ranks 0 and 2 AllGathers, on the same streams."""
    kernels = [(n, n, 100 + 50 * n, 104 + 50 * n, BROADCAST) for n in range(4)]
    reduced = [(0, 0, 400, 500), (1, 1, 400, 502), (2, 2, 400, 600), (3, 3, 400, 601)]
    gathered = [(0, 0, 700, 800), (2, 2, 700, 802), (1, 1, 700, 900), (3, 3, 700, 901)]
    others = [(*one, ALL_REDUCE) for one in reduced] + [(*one, ALL_GATHER) for one in gathered]
    run = run_with(*kernels, *others, clocks="aaaa")
    assert (groups(run, ALL_REDUCE), groups(run, ALL_GATHER)) == ([[0, 1], [2, 3]], [[0, 2], [1, 3]])
    assert groups(run, BROADCAST) == []


def test_kernels_of_another_stream_tell_nothing() -> None:
    kernels = [(n, n + 4, 100 + 50 * n, 104 + 50 * n, BROADCAST) for n in range(2)]
    assert groups(run_with(*kernels, *REDUCED[:2]), BROADCAST) == []


# The second of two Broadcasts in a step shows that rank 0 is the root.
OFF = tuple((n, n, *times, BROADCAST) for n, *times in ((0, 316, 320), (1, 250, 306), (0, 500, 504), (1, 600, 604)))


@pytest.mark.parametrize(("error", "found"), [(30, [[0, 1]]), (0, [])])
def test_clocks_of_two_hosts_may_be_off(error: int, found: list[list[int]]) -> None:
    """By the clock of its host the root begins 10 us after rank 1 has its data. Rank 1 has waited until its end."""
    run = run_with(*OFF, *REDUCED[:2], clocks="ab", error=error * US)
    assert groups(run, BROADCAST) == found
    if found:
        assert waits(run, BROADCAST)[1] == [(1, 250, 306, 0), (0, 316, 316, 0)]


def test_clocks_of_one_host_are_not_off() -> None:
    assert groups(run_with(*OFF, *REDUCED[:2], error=30 * US), BROADCAST) == []


def test_ranks_may_have_recorded_fewer_operations() -> None:
    """Rank 1 lacks the first four Broadcasts and the first AllReduce, rank 0 the last step."""
    early, late = ((n, n, at + 60 * n, at + 4 + 60 * n, BROADCAST) for at, n in ((100, 0), (100, 1)))
    again = [(n, n, at + 60 * n, at + 4 + 60 * n, BROADCAST) for at in (300, 500) for n in range(2)]
    run = run_with(early, late, *again, *REDUCED[:2])
    low, high = STEP + 200 * US, (STEPS - 1) * STEP + 50 * US
    kept = pl.when(pl.col("task") == 1).then(pl.col("start") > low).otherwise(pl.col("start") < high)
    found = found_in(run._replace(work=run.work.filter(kept)), BROADCAST)
    of_one = found.group_by("operation").agg(
        pl.col("began").max() - pl.col("began").min(), pl.col("task").sort(), ranks=pl.len()
    )
    assert of_one.drop("operation").unique().rows() == [(60 * US, [0, 1], 2)]
    assert of_one.height == 3 * (STEPS - 3) + 2


def test_a_rank_with_other_kernels_between_two_operations_has_no_part() -> None:
    """In every second step rank 1 has one Broadcast more: it may be of another communicator."""
    kernels = [(n, n, 100 + 60 * n, 104 + 60 * n, BROADCAST) for n in range(2)]
    run, more = (run_with(*kernels, *others) for others in (REDUCED[:2], [(1, 1, 300, 304, BROADCAST)]))
    odd = more.work.filter(pl.col("start") // STEP % 2 == 1, pl.col("start") % STEP == 300 * US)
    assert groups(run, BROADCAST) == [[0, 1]]
    assert groups(run._replace(work=pl.concat([run.work, odd]).sort("start", "row")), BROADCAST) == []


def test_small_broadcasts_of_several_roots_are_left_over() -> None:
    """Ranks 0 and 1 are the root by turns: then no times contradict any order of the kernels."""
    kernels = [(n, n, at + 60 * (n == root), at + 4 + 60 * (n == root), BROADCAST)
               for at, root in ((100, 0), (300, 1)) for n in range(2)]  # fmt: skip
    assert groups(run_with(*kernels, *REDUCED[:2]), BROADCAST) == []
    assert groups(run_with(*((*one[:3], one[3] + 80, BROADCAST) for one in kernels), *REDUCED[:2]), BROADCAST) == [
        [0, 1]
    ]


def test_operations_that_ran_at_one_time_by_chance_tell_nothing() -> None:
    """One AllGather ended on rank 2 long after the others: so ranks 0 and 1 alone seem to share it."""
    kernels = [(n, n, 100 + 60 * n, 104 + 60 * n, BROADCAST) for n in range(3)]
    gathered = run_with(*((n, n, 20, 40 + 500 * (n == 2), ALL_GATHER) for n in range(3)), clocks="aaa", steps=[0])
    run = run_with(*kernels, *REDUCED[:3], clocks="aaa", steps=range(1, STEPS))
    both = run._replace(work=pl.concat([gathered.work, run.work]).sort("start", "row"))
    assert groups(both, ALL_GATHER) == [[0, 1]]
    assert groups(both, BROADCAST) == [[0, 1, 2]]


@pytest.mark.parametrize(("steps", "found"), [(4, [[0, 1, 2, 3]]), (STEPS, [[0, 1], [2, 3]])])
def test_that_many_broadcasts_end_together_tells_more_than_their_order(steps: int, found: list[list[int]]) -> None:
    """Few may do so by chance. All ranks share AllReduces; pairs of them seem to share Broadcasts on these streams."""
    kernels = [(n, n, 100, 300 + 200 * (n // 2) + n, BROADCAST) for n in range(4)]
    assert groups(run_with(*kernels, *REDUCED, clocks="aaaa", steps=range(steps)), BROADCAST) == found


def test_few_operations_tell_no_communicator() -> None:
    kernels = [(n, n, 100 + 60 * n, 104 + 60 * n, BROADCAST) for n in range(2)]
    assert groups(run_with(*kernels, *REDUCED[:2], steps=range(3)), BROADCAST) == []


@pytest.mark.parametrize("name", [BROADCAST, REDUCE])
def test_alone_on_their_streams_they_are_told_if_half_of_them_ran_at_one_time(name: str) -> None:
    """Of two in a step one is large: both ranks end it together. In the small one the rank that sends comes first."""
    large = (0, 0, 100, 250, name), (1, 1, 90, 252, name)
    first, second = (0, 1) if name == BROADCAST else (1, 0)
    small = (first, first, 500, 504, name), (second, second, 600, 604, name)
    assert groups(run_with(*large, *small), name) == [[0, 1]]
    assert groups(run_with(*small), name) == []
    contradicting = [(1 - task, 1 - row, begin + 200, end + 200, name) for task, row, begin, end, _ in small]
    assert groups(run_with(*large, *small, *large, *contradicting), name) == []


def test_broadcasts_follow_from_reduces_that_are_alone_with_them() -> None:
    """As of a server of parameters: gradients go to rank 0, whose small Broadcasts are done before rank 1 begins."""
    large = (0, 0, 100, 250, REDUCE), (1, 1, 90, 252, REDUCE)
    small = [(n, n, 500 + 100 * n + 10 * at, 504 + 100 * n + 10 * at, BROADCAST) for n in range(2) for at in range(3)]
    run = run_with(*large, *small)
    assert groups(run, REDUCE) == groups(run, BROADCAST) == [[0, 1]]
    assert found_in(run, BROADCAST).height == run.work.filter(pl.col("name") == BROADCAST).height
    assert groups(run_with(*small), BROADCAST) == []


def test_alone_on_their_streams_two_communicators_in_step_are_not_mixed() -> None:
    large = [(0, 0, 100, 250), (1, 1, 90, 252), (2, 2, 101, 400), (3, 3, 95, 403)]
    small = [(0, 0, 500, 504), (1, 1, 600, 604), (2, 2, 500, 504), (3, 3, 600, 604)]
    run = run_with(*((*one, BROADCAST) for one in large + small), clocks="aaaa")
    assert groups(run, BROADCAST) == [[0, 1], [2, 3]]


def test_a_root_alone_on_its_stream_is_found_with_all_ranks() -> None:
    """Ranks 1 and 2 come late in different steps, so that they seldom run at one time."""
    large = [(0, 0, 100, 250), (1, 1, 90, 252), (2, 2, 95, 253)]
    small = [(0, 0, 500, 504), (1, 1, 600, 604), (2, 2, 550, 554)]
    run = run_with(*((*one, BROADCAST) for one in large + small), clocks="aaa")
    assert groups(run, BROADCAST) == [[0, 1, 2]]


@pytest.mark.parametrize("seed", range(10))
def test_random_rings_are_matched_and_wait_as_a_loop_says(seed: int) -> None:
    """Communicators of two to four ranks broadcast from a root each, between AllReduces, with random delays."""
    random = np.random.default_rng(seed)
    sizes = random.integers(2, 5, 3)
    rows: list[Kernel] = []
    members = [list(map(int, block)) for block in np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1])]
    for number, tasks in enumerate(members):
        free = dict.fromkeys(tasks, 0)
        for _ in range(40):
            begin = {task: free[task] + int(random.exponential(60 * US)) + 1 for task in tasks}
            if small := random.random() < 0.6:
                came, until = 0, {}
                for task in tasks:
                    came = until[task] = max(begin[task], came) + 4 * US
            else:
                last = max(begin.values()) + (30 + 70 * number) * US
                until = {task: last + int(random.integers(2 * US)) for task in tasks}
            rows += [(task, task, begin[task], until[task], BROADCAST if small else ALL_REDUCE) for task in tasks]
            free = until
    run = run_of_kernels(rows, "a" * int(sizes.sum()))
    found = found_in(run, BROADCAST)
    assert groups(run, BROADCAST) == members
    assert found.height == sum(name == BROADCAST for *_, name in rows)
    for _, parts in found.group_by("operation"):
        for ended, last, waited_for in parts.select("ended", "last", "waited_for").rows():
            assert (last, waited_for) == max((b, t) for b, t in parts.select("began", "task").rows() if b < ended)
    numbered = found.sort("began").with_columns(nth=pl.int_range(pl.len()).over("task"))
    assert numbered.group_by("operation").agg(pl.col("nth").n_unique())["nth"].unique().to_list() == [1]

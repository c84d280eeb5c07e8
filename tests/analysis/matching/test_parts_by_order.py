"""NCCL kernels without payload: which of them are one operation, by order and times."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from analysis_cases import run_of
from construct.report import open_copy
from runs import parameters, reports_of

from nsys2prv.analysis.frames import PART, WORK, Run, RunClocks
from nsys2prv.analysis.matching.parts_by_order import parts_by_order
from nsys2prv.analysis.question import Question
from nsys2prv.commands.analyze import analyze
from nsys2prv.model.frames import COLLECTIVE, RECEIVE, SEND
from nsys2prv.run.run_options import RunOptions

US, STEP = 1_000, 1_000_000
NONE = pl.DataFrame(schema=PART)
# A kernel of a step: task, row of its stream, begin and end (us), and the operation if its call names it.
Kernel = tuple[int, int, int, int, str | None]


def run_with(*kernels: Kernel, clocks: str = "aaaa", error: int = 0) -> Run:
    """Return a run of 20 steps of a millisecond with the same kernels; those of every second step last 10 us longer."""
    rows = []
    for step in range(20):
        for task, stream, begin, end, operation in kernels:
            times = (STEP * step + begin * US, STEP * step + (end + 10 * (step % 2)) * US)
            name = "ncclDevKernel_SendRecv" if operation else "ncclDevKernel_AllReduce"
            payload = (None, None, operation, times[0], None, None, None, False, None, None)
            rows.append((task, task, stream, *times, "nccl", name, name, "NCCL", *payload))
    work = pl.DataFrame(rows, schema=WORK, orient="row").sort("start", "row")
    return run_of(work, ranks=len(clocks))._replace(clocks=RunClocks(error, tuple(map(ord, clocks))))


def groups(run: Run) -> list[list[int]]:
    """Return the tasks of the operations, each set of tasks once."""
    found = parts_by_order(run, NONE).group_by("operation").agg(pl.col("task").sort())["task"]
    return sorted(found.unique().to_list())


def test_two_groups_in_step_are_told_apart_by_their_ends() -> None:
    """All four kernels of a step run at one time; ranks 0 and 2 end together, and ranks 1 and 3 do 100 us later."""
    kernels = [(0, 0, 100, 300), (2, 1, 150, 305), (1, 2, 100, 400), (3, 3, 290, 402)]
    run = run_with(*((*kernel, None) for kernel in kernels))
    assert groups(run) == [[0, 2], [1, 3]]
    found = parts_by_order(run, NONE).filter(pl.col("task") < 2, pl.col("began") < STEP)
    assert found.sort("task").select("kind", "began", "last", "waited_for").rows() == [
        (COLLECTIVE, 100 * US, 150 * US, 2),
        (COLLECTIVE, 100 * US, 290 * US, 3),
    ]


def test_streams_of_two_contexts_with_one_label_are_two() -> None:
    """Rank 0 shares one stream's operations with rank 1, the other one's with rank 2."""
    kernels = [(0, 0, 100, 300, None), (1, 2, 150, 305, None), (0, 1, 500, 600, None), (2, 3, 510, 602, None)]
    run = run_with(*kernels, clocks="aaa")._replace(row_labels=("CUDA-D0.S7",) * 4, first_lanes=(0, 1, 2, 3))
    assert groups(run) == [[0, 1], [0, 2]]


def test_all_ranks_are_one_group_although_their_ends_differ_by_some_us() -> None:
    kernels = [(n, n, 100 + 40 * n, 300 + 6 * n, None) for n in range(4)]
    assert groups(run_with(*kernels)) == [[0, 1, 2, 3]]


def test_all_ranks_are_one_group_where_ends_tell_no_others() -> None:
    """The first operation after a long pause may end 100 us apart."""
    assert groups(run_with((0, 0, 100, 900, None), (1, 1, 790, 800, None), clocks="aa")) == [[0, 1]]


def test_kernels_that_do_not_run_at_one_time_are_left_over() -> None:
    assert groups(run_with((0, 0, 100, 200, None), (1, 1, 300, 400, None), clocks="aa")) == []


@pytest.mark.parametrize(("clocks", "found"), [("aaaa", [[2, 3]]), ("abaa", [[0, 1], [2, 3]])])
def test_two_clocks_may_differ(clocks: str, found: list[list[int]]) -> None:
    """The clock of rank 1 is 180 us late, and known to 40 us."""
    pairs = [(0, 0, 100, 300, None), (1, 1, 280, 480, None), (2, 2, 500, 600, None), (3, 3, 500, 600, None)]
    assert groups(run_with(*pairs, clocks=clocks, error=40 * US)) == found


# A stage in the middle sends to both of its neighbors on one stream, and receives from both. Receives end 13 us later.
MIDDLE = (
    (0, 0, 100, 200, "Send"),
    (1, 1, 50, 213, "Recv"),
    (1, 1, 250, 300, "Send"),
    (2, 2, 240, 313, "Recv"),
    (2, 2, 400, 500, "Send"),
    (1, 1, 320, 513, "Recv"),
    (1, 1, 720, 760, "Send"),
    (0, 0, 300, 773, "Recv"),
)


def test_messages_of_a_stream_with_two_peers_are_told_by_their_ends() -> None:
    found = parts_by_order(run_with(*MIDDLE, clocks="aaa"), NONE).filter(pl.col("began") < STEP)
    messages = (
        found.sort("kind", descending=True).group_by("operation", maintain_order=True).agg("task", "kind", "ended")
    )
    assert sorted(messages.select("task", "kind", pl.col("ended").list.eval(pl.element() // US)).rows()) == [
        ([0, 1], [RECEIVE, SEND], [773, 760]),
        ([1, 0], [RECEIVE, SEND], [213, 200]),
        ([1, 2], [RECEIVE, SEND], [513, 500]),
        ([2, 1], [RECEIVE, SEND], [313, 300]),
    ]


def test_transfers_that_end_at_one_time_by_chance_are_of_peers() -> None:
    """In one step rank 3, which sends to ranks 4 and 5, ends nearer to the receive of rank 2 than rank 1."""
    others = ((3, 3, 100, 240, "Send"), (4, 4, 90, 253, "Recv"), (3, 3, 900, 950, "Send"), (5, 5, 890, 963, "Recv"))
    run = run_with(*MIDDLE, *others, clocks="aaaaaa")
    in_step, early = pl.col("start") // STEP == 4, pl.col("start") % STEP < 500 * US
    moved = pl.when(in_step & early & (pl.col("task") > 2)).then(73 * US).otherwise(0)
    later = pl.when(in_step & (pl.col("task") == 2) & (pl.col("operation") == "Recv")).then(US).otherwise(0)
    work = run.work.with_columns(pl.col("start") + moved, pl.col("end") + moved + later)
    assert groups(run._replace(work=work)) == [[0, 1], [1, 2], [3, 4], [3, 5]]


def test_messages_of_two_pipelines_in_step_are_told_apart() -> None:
    """The second pipeline does the same, up to 12 us before or after; its messages end nearer to zero."""
    second = [(task + 3, row + 3, begin, end - 6 * (what == "Recv"), what) for task, row, begin, end, what in MIDDLE]
    run = run_with(*MIDDLE, *second, clocks="aaaaaa")
    step, other = pl.col("start") // STEP, pl.col("task") > 2
    shift = pl.when(other).then((step * 7 % 25 - 12) * US).otherwise(0)
    work = run.work.with_columns(pl.col("start", "end") + shift)
    assert groups(run._replace(work=work)) == [[0, 1], [1, 2], [3, 4], [4, 5]]
    found = parts_by_order(run._replace(work=work), NONE)
    assert found.height == 2 * 8 * 20


def test_no_message_of_a_stream_is_told_where_the_ends_tell_few() -> None:
    """Two of three receives of rank 1 end at any time after their sends."""
    run = run_with(*MIDDLE, clocks="aaa")
    any_time = (pl.col("task") == 1) & (pl.col("operation") == "Recv") & (pl.col("start") // STEP % 3 > 0)
    later = pl.when(any_time).then(100 * US + pl.col("start") // STEP * 3 * US).otherwise(0)
    found = parts_by_order(run._replace(work=run.work.with_columns(pl.col("end") + later)), NONE)
    assert found.filter(pl.col("kind") == RECEIVE)["task"].unique().sort().to_list() == [0, 2]


def test_clocks_of_one_host_may_differ_if_the_distance_is_steady() -> None:
    """Kernels end 70 us apart in each step, or 20 and 120 us in turns. Ranks 2 and 3 show that groups can be told."""
    run = run_with(*((n, n, 100, 300 + (70 if n == 1 else 0) + (n // 2) * 400, None) for n in range(4)))
    assert groups(run) == [[0, 1], [2, 3]]
    second_rank, odd_step = pl.col("task") == 1, pl.col("start") // STEP % 2 == 1
    in_turns = pl.when(second_rank).then(pl.when(odd_step).then(50 * US).otherwise(-50 * US)).otherwise(0)
    assert groups(run._replace(work=run.work.with_columns(pl.col("end") + in_turns))) == [[2, 3]]


def test_two_groups_of_short_kernels_in_step_are_told_apart() -> None:
    """Their kernels last 20 us and less, and their ends are 20 us apart."""
    kernels = [(0, 0, 100, 120), (1, 1, 101, 121), (2, 2, 105, 140), (3, 3, 106, 141)]
    assert groups(run_with(*((*kernel, None) for kernel in kernels))) == [[0, 1], [2, 3]]


def test_of_two_streams_of_a_rank_the_nearer_one_counts() -> None:
    kernels = [(0, 0, 100, 300), (1, 1, 110, 302), (0, 4, 100, 304)]
    found = parts_by_order(run_with(*((*kernel, None) for kernel in kernels)), NONE)
    assert found["row"].unique().sort().to_list() == [0, 1]


def test_the_gpus_of_one_process_are_members() -> None:
    run = run_with((0, 0, 100, 300, None), (1, 1, 200, 301, None), clocks="aa")
    found = parts_by_order(run._replace(work=run.work.with_columns(task=pl.lit(0, pl.Int64))), NONE)
    assert found.height == run.work.height
    assert found["waited_for"].unique().to_list() == [0]


def test_streams_with_other_counts_are_left_over() -> None:
    """Rank 1 has a second kernel in each step; and two streams of one rank are no communicator."""
    again = [(0, 0, 100, 300, None), (1, 1, 100, 300, None), (1, 1, 500, 600, None)]
    assert groups(run_with(*again, clocks="aa")) == []
    assert groups(run_with((0, 0, 100, 300, None), (0, 1, 100, 300, None), clocks="aa")) == []


def test_ranks_may_begin_to_record_one_after_the_other() -> None:
    """Rank 1 lacks the first five kernels, rank 0 the last four. Rank 0 always waits for rank 1."""
    run = run_with((0, 0, 100, 900, None), (1, 1, 700, 905, None), clocks="aa")
    late = (pl.col("task") == 0) & (pl.col("start") < 16 * STEP) | (pl.col("task") == 1) & (pl.col("start") >= 5 * STEP)
    found = parts_by_order(run._replace(work=run.work.filter(late)), NONE)
    of_step = found.with_columns(step=pl.col("began") // STEP).group_by("operation").agg("step", "last")
    assert of_step.height == 11
    assert sorted(of_step["step"].to_list()) == [[step, step] for step in range(5, 16)]
    few = (pl.col("task") == 0) & (pl.col("start") < 8 * STEP) | (pl.col("task") == 1) & (pl.col("start") >= 5 * STEP)
    assert parts_by_order(run._replace(work=run.work.filter(few)), NONE).is_empty()


def test_kernels_with_a_part_are_left_out() -> None:
    run = run_with((0, 0, 100, 300, None), (1, 1, 100, 300, None), clocks="aa")
    known = parts_by_order(run, NONE)
    assert known.height == run.work.height
    assert parts_by_order(run, known).is_empty()
    half = parts_by_order(run, known.filter(pl.col("operation") < 10))
    assert half["operation"].unique().sort().to_list() == list(range(10, 20))


def test_a_receive_that_came_first_tells_its_send() -> None:
    """Each of two ranks sends to one of two others. One send is done before its receive begins, one receive waits."""
    sends = [(0, 0, 100, 130, "Send"), (0, 0, 500, 600, "Send"), (1, 1, 100, 130, "Send"), (1, 1, 610, 700, "Send")]
    receives = [(2, 2, 200, 230, "Recv"), (2, 2, 400, 605, "Recv"), (3, 3, 200, 230, "Recv"), (3, 3, 400, 703, "Recv")]
    run = run_with(*sends, *receives)
    assert groups(run) == [[0, 2], [1, 3]]
    first = parts_by_order(run, NONE).filter(pl.col("operation") < 2, pl.col("task").is_in([0, 2]))
    assert first.sort("began").select("task", "kind", "began", "last", "waited_for").rows() == [
        (0, SEND, 100 * US, 200 * US, 2),
        (2, RECEIVE, 200 * US, 200 * US, 2),
        (2, RECEIVE, 400 * US, 500 * US, 0),
        (0, SEND, 500 * US, 500 * US, 0),
    ]


def test_a_receive_cannot_end_before_its_send_begins() -> None:
    assert groups(run_with((0, 0, 300, 400, "Send"), (1, 1, 100, 200, "Recv"), clocks="aa")) == []


@pytest.mark.parametrize("name", parameters("mesh-tp-pp", "pipe", "fsdp"))
def test_real_runs_without_payloads_wait_as_those_with_them(name: str, tmp_path: Path) -> None:
    """In `mesh-tp-pp` pairs of ranks share communicators. One stream serves two of them, which costs 2 %."""
    error = 0.02 if name == "mesh-tp-pp" else 0.0
    reports, bare = reports_of(name), []
    for report in reports:
        with open_copy(report, tmp_path) as copy:
            copy.run("UPDATE NVTX_EVENTS SET jsonText = NULL, binaryData = NULL")
            bare.append(copy.path)
    known, found = (analyze(own, question=Question(window="trace")).explanation for own in (reports, bare))
    assert known.communication["unmatched_ns"].sum() == found.communication["unmatched_ns"].sum() == 0
    assert found.waiting.select("rank", "waited_for").equals(known.waiting.select("rank", "waited_for"))
    some = analyze(bare, question=Question(window="trace"), options=RunOptions(ranks=frozenset({0, 1})))
    left_out = len(bare) > 2
    assert (some.explanation.communication["unmatched_ns"].sum() > 0) == left_out
    for own, other in zip(found.waiting["waiting_ns"], known.waiting["waiting_ns"], strict=True):
        assert own == pytest.approx(other, rel=error, abs=50 * US if error else 0)

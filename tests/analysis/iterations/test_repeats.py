"""Iterations without ranges: from one launch of what repeats to the next."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from analysis_cases import run_of

from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.conclude import with_findings
from nsys2prv.analysis.frames import WORK
from nsys2prv.analysis.iterations.iterations_by_repeats import find_repeats
from nsys2prv.analysis.question import Question
from nsys2prv.cli.analysis_text import text_of
from nsys2prv.cli.first_screen import verdict_of
from nsys2prv.run.iterations.milestone_kinds import OF_COLLECTIVE, OF_ORDER
from nsys2prv.run.iterations.milestones import choose_milestone
from nsys2prv.run.iterations.repeats import REPEATING

# Kind, name, family, bytes.
ADAM = ("kernel", "multi_tensor_apply_kernel", "optimizer", None)
LISTS = ("kernel", "multi_tensor_apply_kernel", "elementwise", None)
GEMM = ("kernel", "gemm", "GEMM", None)
REDUCE = ("nccl", "ncclDevKernel_AllReduce", "NCCL", 4096)
SMALL = ("nccl", "ncclDevKernel_AllReduce", "NCCL", 64)
LATER = ("kernel", "later", "later", None)
GRAPH = ("graph", "graph 1", "CUDA graphs", None)


def work(*launches: tuple[int, int, tuple[str, str, str, int | None]]) -> pl.DataFrame:
    """WORK of (task, launched, what), each 5 ns long, 10 ns after its launch."""
    rows = [
        (
            task,
            task,
            0,
            at + 10,
            at + 15,
            kind,
            name,
            family,
            family,
            size,
            None,
            None,
            at,
            None,
            None,
            None,
            False,
            None,
            None,
        )
        for task, at, (kind, name, family, size) in launches
    ]
    return pl.DataFrame(rows, schema=WORK, orient="row").sort("start")


def step(task: int, at: int, *parts: tuple[str, str, str, int | None]) -> list[tuple[int, int, object]]:
    """Launches 10 ns apart."""
    return [(task, at + 10 * n, part) for n, part in enumerate(parts)]


def steps(parts: tuple[object, ...], begins: list[int], tasks: int = 2) -> pl.DataFrame:
    launches = [one for task in range(tasks) for at in begins for one in step(task, at, *parts)]  # type: ignore[arg-type]
    return work(*launches)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parts", "milestone"),
    [
        ((GEMM, GEMM, REDUCE, ADAM, ADAM, ADAM), "multi_tensor_apply_kernel"),
        ((REDUCE, GEMM, GEMM, REDUCE, LISTS, LISTS), "multi_tensor_apply_kernel"),
        ((GEMM, REDUCE, GEMM), "ncclDevKernel_AllReduce"),
        ((SMALL, GEMM, SMALL, GEMM, REDUCE), "ncclDevKernel_AllReduce"),
        ((GRAPH, GEMM), "graph 1"),
    ],
)
def test_iterations_go_from_one_milestone_to_the_next_on_every_rank(parts: tuple[object, ...], milestone: str) -> None:
    """Six steps, the first of them longer: start-up."""
    found = find_repeats(run_of(steps(parts, [0, 3000, 4000, 5000, 6000, 7000])))
    assert found is not None
    assert found.milestone == milestone
    for task in range(2):
        own = found.steps.filter(task=task)
        assert own["number"].to_list() == [0, 1, 2, 3, 4]
        assert (own["end"] - own["start"]).to_list() == [3000, 1000, 1000, 1000, 1000]


def test_two_models_that_are_updated_in_turn_are_one_iteration() -> None:
    """The discriminator of a GAN takes more kernels than the generator."""
    turns = (GEMM, GEMM, LATER, LATER, GEMM, LISTS, LISTS, GEMM, LISTS, LISTS)
    launches = [
        (task, at + place, part)
        for task in range(2)
        for at in range(0, 7000, 1000)
        for place, part in zip((0, 20, 40, 60, 80, 100, 102, 500, 600, 602), turns, strict=True)
    ]
    found = find_repeats(run_of(work(*launches)))
    assert found is not None
    assert found.steps.filter(task=0).height == 6


def test_kernels_over_lists_are_milestones_only_without_an_optimizer() -> None:
    """Norms and averages of weights take lists, too: here they come before the first step of the optimizer."""
    found = find_repeats(run_of(steps((LISTS, GEMM, GEMM, GEMM, ADAM), [0, 3000, 4000, 5000, 6000, 7000])))
    assert found is not None
    assert found.steps.filter(task=0)["start"].to_list()[:2] == [40, 3040]


@pytest.mark.parametrize(
    ("parts", "begins"),
    [
        ((GEMM, GEMM), [0, 1000, 2000, 3000, 4000, 5000]),
        ((GEMM, ADAM), [0, 1000, 2000]),
        ((GEMM, REDUCE), [0, 100, 5000, 5100, 30000, 70000, 71000]),
    ],
    ids=["no milestone", "three times", "at odd times"],
)
def test_no_iterations_where_nothing_repeats(parts: tuple[object, ...], begins: list[int]) -> None:
    assert find_repeats(run_of(steps(parts, begins))) is None


def test_iterations_that_a_host_launches_at_once_are_told_apart() -> None:
    """It ran ahead, so that steps 9 to 12 were launched as close as the collectives within a step."""
    begins = [*range(0, 9000, 1000), *range(9000, 9440, 110)]
    found = find_repeats(run_of(steps((*(GEMM,) * 8, REDUCE, REDUCE, REDUCE), [0, *(at + 3000 for at in begins)])))
    assert found is not None
    assert found.milestone == "ncclDevKernel_AllReduce"
    for task in range(2):
        assert found.steps.filter(task=task)["number"].to_list() == list(range(13))


def test_a_graph_that_a_host_launches_ahead_is_an_iteration_each_time() -> None:
    """The host waits after 3, 5, 4, 7 and 6 launches, and each graph takes 1 us."""
    launched = [100_000 * sum((at >= 3, at >= 8, at >= 12, at >= 19)) + 10 * at for at in range(25)]
    on_device = 1_000_000 + 1000 * pl.int_range(25, dtype=pl.Int64)
    graphs = work(*((0, at, GRAPH) for at in launched)).with_columns(start=on_device, end=on_device + 990)
    found = find_repeats(run_of(graphs, ranks=1))
    assert found is not None
    assert (found.milestone, found.steps.height) == ("graph 1", 24)


@pytest.mark.parametrize(("between", "found"), [((), 19), ((GEMM,), 3)], ids=["nothing else", "other work"])
def test_bursts_that_only_pauses_part_are_iterations_of_a_host_that_runs_ahead(
    between: tuple[object, ...], found: int
) -> None:
    """It waits after every fifth collective pair; other work there tells that the five are of one iteration."""
    pair, launches = (GEMM, GEMM, REDUCE, REDUCE, GEMM), []
    for n in range(20):
        launches += step(0, 100_000 * (n // 5) + 60 * n, *(pair if n % 5 else (*between, *pair)))  # type: ignore[arg-type]
    on_device = 1_000_000 + 1000 * pl.int_range(pl.len(), dtype=pl.Int64)
    repeats = find_repeats(run_of(work(*launches).with_columns(start=on_device, end=on_device + 990), ranks=1))  # type: ignore[arg-type]
    assert repeats is not None
    assert (repeats.milestone, repeats.steps.height) == ("ncclDevKernel_AllReduce", found)


def test_work_that_all_iterations_have_counts_rather_than_work_of_some() -> None:
    """A program that is compiled again runs other kernels from then on, and is a little faster."""
    first, then = ((LATER, *(GEMM,) * 9, ("kernel", name, name, None)) for name in ("old", "new"))
    begins = [3000 * (n > 0) + 1000 * n for n in range(12)], [20_000 + 990 * n for n in range(9)]
    both = [steps(parts, own) for parts, own in zip((first, then), begins, strict=True)]
    found = find_repeats(run_of(pl.concat(both).sort("start")))
    assert found is not None
    assert found.milestone == "later"
    assert found.steps.filter(task=0)["number"].to_list() == list(range(20))


def test_collectives_of_layers_of_which_some_are_missing_are_no_iterations() -> None:
    """Tensor-parallel decoding of 40 tokens and 48 layers: a host that ran ahead hides some of the collectives."""
    rows = [
        (0, OF_COLLECTIVE, "AllReduce", 4096, 1800, 50.0, 13.0, None),
        (0, OF_ORDER, "AllReduce", None, 1920, 50.0, 12.2, 1.0),
        (0, OF_ORDER, "sample", None, 40, 2400.0, 585.0, 1.0),
    ]
    found = choose_milestone(pl.DataFrame(rows, schema=REPEATING, orient="row"), [0], [])
    assert found is not None
    assert found.name == "sample"


@pytest.mark.parametrize(
    ("each_time", "every_few", "milestone"),
    [
        # Buckets of gradients, seven an iteration.
        ((), ("input", "loss", "reduce"), "reduce"),
        ((), ("input", "loss"), "AllReduce"),
        # A program that reports something every seven iterations.
        (("input", "loss", "norm"), ("a report", "b report", "c report"), "AllReduce"),
    ],
)
def test_collectives_of_buckets_are_no_iterations(
    each_time: tuple[str, ...], every_few: tuple[str, ...], milestone: str
) -> None:
    """More than 60 activities go with each collective."""
    rows = [
        (0, OF_COLLECTIVE, "AllReduce", None, 78, 3.2, 106.0, None),
        *((0, OF_ORDER, name, None, 79, 3.2, 105.0, 0.95) for name in each_time),
        *((0, OF_ORDER, name, None, 12, 23.0, 690.0, 0.9) for name in every_few),
    ]
    found = choose_milestone(pl.DataFrame(rows, schema=REPEATING, orient="row"), [0], [])
    assert found is not None
    assert found.name == milestone


def test_work_of_all_ranks_counts_rather_than_work_that_one_has_half_as_often() -> None:
    """Both have one period, and one rank stops calling one of them halfway."""
    begins = [1000 * n for n in range(40)]
    rare = ("nccl", "ncclDevKernel_Broadcast", "NCCL", 128)
    both = [step(0, at, GEMM, rare, REDUCE) for at in begins]
    other = [step(1, at, GEMM, *((rare,) if n < 24 else ()), REDUCE) for n, at in enumerate(begins)]
    found = find_repeats(run_of(work(*[one for each in (*both, *other) for one in each])))  # type: ignore[arg-type]
    assert found is not None
    assert (found.milestone, found.steps.filter(task=1).height) == ("ncclDevKernel_AllReduce", 39)


@pytest.mark.parametrize(("later", "found"), [(3, True), (5, True), (7, False)])
def test_a_rank_that_began_to_record_much_later_has_the_iterations_of_its_time(later: int, found: bool) -> None:
    """Where it recorded less than half, nothing says that it is not a helper that trains now and then."""
    begins = [1000 * n for n in range(12)]
    one, other = (
        steps((GEMM, ADAM), begins, tasks=1),
        work(*(step_ for at in begins[later:] for step_ in step(1, at, GEMM, ADAM))),
    )  # type: ignore[misc]
    repeats = find_repeats(run_of(pl.concat([one, other])))
    assert (repeats is not None) == found
    if repeats:
        own = repeats.steps.filter(task=1)
        assert (own["number"] == own["start"] // 1000).all()


@pytest.mark.parametrize("launched", [(10, 800, 810), (10, 20, 800), (10, 400, 800)])
def test_an_optimizer_that_loads_its_kernels_is_one_milestone(launched: tuple[int, ...]) -> None:
    """In its first run on one rank it stops between kernels, nearly as long as between iterations."""
    first = work((1, 0, GEMM), *((1, at, ADAM) for at in launched))
    usual = (GEMM, ADAM, ADAM, ADAM)
    others = [work(*step(0, 0, *usual)), steps(usual, [1000 * n for n in range(1, 8)])]  # type: ignore[arg-type]
    found = find_repeats(run_of(pl.concat([first, *others])))
    assert found is not None
    assert found.steps.group_by("task").agg("number").sort("task").rows() == [(0, [*range(7)]), (1, [*range(7)])]


@pytest.mark.parametrize(
    "paused",
    [
        {4: (10, 400, 800)},
        {4: (10, 400, 410), 5: (10, 400, 410)},
        {4: (10, 20, 980), 5: (10, 500, 510)},
        dict.fromkeys(range(1, 7), (10, 20, 800)),
    ],
    ids=["a step in three parts", "two steps", "a part of two steps", "most steps, and the device runs them at once"],
)
def test_an_optimizer_whose_launches_pause_is_one_milestone(paused: dict[int, tuple[int, int, int]]) -> None:
    """As where the queue of the device is full: the host waits between the launches of a step."""
    launched = [(1000 * n, paused.get(n, (10, 20, 30))) for n in range(8)]
    parts = [work((0, at, GEMM), *((0, at + later, ADAM) for later in own)) for at, own in launched]
    on_device = [
        part.with_columns(start=at + 10 * pl.int_range(4) + 900, end=at + 10 * pl.int_range(4) + 905)
        for part, (at, _) in zip(parts, launched, strict=True)
    ]
    found = find_repeats(run_of(pl.concat(on_device), ranks=1))
    assert found is not None
    assert found.milestone == ADAM[1]
    assert found.steps["start"].to_list() == [1000 * n + 10 for n in range(7)]


def test_an_optimizer_ends_iterations_at_any_distances() -> None:
    """As where every second iteration waits for data."""
    begins = [0, 1000, 60_000, 61_000, 120_000, 121_000]
    found = find_repeats(run_of(steps((GEMM, ADAM), begins)))
    assert found is not None
    own = found.steps.filter(task=0)
    assert (own["end"] - own["start"]).to_list() == [1000, 59_000, 1000, 59_000, 1000]
    assert find_repeats(run_of(steps((GEMM, REDUCE), begins))) is None


COPY_BACK = ("kernel", "reduce_kernel", "reduction", None)
LOOP = (*(GEMM,) * 10, COPY_BACK)


@pytest.mark.parametrize("pause", [0, 500_000])
def test_kernels_at_equal_places_are_iterations_whatever_lies_between(pause: int) -> None:
    """Each rank pauses after steps of its own; the kernel that comes once a step is the milestone."""
    launches = [
        one for task in range(2) for n in range(8) for one in step(task, 1000 * n + pause * ((n + task) // 3), *LOOP)
    ]
    found = find_repeats(run_of(work(*launches)))  # type: ignore[arg-type]
    assert found is not None
    assert found.milestone == "reduce_kernel"
    assert found.steps.group_by("task").len().sort("task").rows() == [(0, 7), (1, 7)]


def test_of_kernels_at_equal_places_those_that_are_rarest_count() -> None:
    """A kernel of each layer comes at equal places, too."""
    layer = (*(GEMM,) * 11, ("kernel", "norm", "normalization", None))
    token = (*layer * 6, COPY_BACK)
    found = find_repeats(run_of(steps(token, [10_000 * n for n in range(6)])))
    assert found is not None
    assert found.milestone == "reduce_kernel"


def test_a_kernel_that_comes_three_times_in_an_iteration_counts_each_third_time() -> None:
    """Its distances differ, so that neither each time nor each second time is regular."""
    parts = (*(GEMM,) * 10, COPY_BACK, *(GEMM,) * 15, COPY_BACK, *(GEMM,) * 25, COPY_BACK)
    found = find_repeats(run_of(steps(parts, [10_000 * n for n in range(5)])))
    assert found is not None
    own = found.steps.filter(task=0)
    assert found.milestone == "reduce_kernel"
    assert (own["end"] - own["start"]).to_list() == [10_000] * 4


@pytest.mark.parametrize("size", [4, 5, 6])
def test_kernels_that_come_in_a_group_at_the_end_of_an_iteration_count_once(size: int) -> None:
    """Of a group of five, four in five distances to the fourth kernel after each are those of an iteration, too."""
    found = find_repeats(run_of(steps((*(GEMM,) * 50, *(COPY_BACK,) * size), [10_000 * n for n in range(8)])))
    assert found is not None
    own = found.steps.filter(task=0)
    assert (found.milestone, own.height) == ("reduce_kernel", 7)
    assert (own["end"] - own["start"]).to_list() == [10_000] * 7


def test_other_work_every_few_iterations_is_no_reason_to_count_every_seventh_of_eight_kernels() -> None:
    """Every eighth kernel then has the usual distance in 87 % of the cases, every seventh in 76 %."""
    begins = enumerate(range(0, 320_000, 10_000))
    parts = [((GEMM,) * (150 if n % 8 == 3 else 50) + (COPY_BACK,) * 8, begin) for n, begin in begins]
    found = find_repeats(run_of(pl.concat(steps(own, [begin]) for own, begin in parts)))
    assert found is not None
    own = found.steps.filter(task=0)
    assert set(own["end"] - own["start"]) == {9_000, 10_000, 11_000}
    assert own.height == 31


def test_in_a_short_loop_one_activity_more_is_another_length() -> None:
    """Six kernels, six others and a copy: five of the six follow each other at distances of ten or eleven."""
    copy = ("copy", "Device-to-Host", "copies", None)
    found = find_repeats(run_of(steps((*(GEMM, COPY_BACK) * 6, copy), [10_000 * n for n in range(12)])))
    assert found is not None
    own = found.steps.filter(task=0)
    assert (own["end"] - own["start"]).to_list() == [10_000] * 11


@pytest.mark.parametrize("evaluated", [6, 3])
def test_an_evaluation_after_each_epoch_is_no_iteration(evaluated: int) -> None:
    """Its batches take longer than those of training."""
    checked, trained = ("kernel", "normalize_with_fixed_statistics", "other", None), (*(GEMM,) * 40, COPY_BACK)
    launches, at = [], 0
    for n in range(3 * (12 + evaluated)):
        trains = n % (12 + evaluated) < 12
        launches += step(0, at, *(trained if trains else (*(GEMM,) * 15, checked)))
        at += 2_000 if trains else 4_000
    found = find_repeats(run_of(work(*launches), ranks=1))  # type: ignore[arg-type]
    assert found is not None
    assert (found.milestone, found.steps.height) == ("reduce_kernel", 35)


@pytest.mark.parametrize(("layers", "length"), [(12, 100_000), (1, 10_000)])
def test_layers_that_run_forward_and_then_backward_are_one_iteration(layers: int, length: int) -> None:
    """No kernel comes once a step. Where each step has one layer, the kernels of both ways take turns."""
    forward, backward = (("kernel", name, "other", None) for name in ("forward", "backward"))
    parts = (*(*(GEMM,) * 12, forward) * layers, *(*(GEMM,) * 15, backward) * layers, *(GEMM,) * 40)
    found = find_repeats(run_of(steps(parts, [length * n for n in range(7)])))
    assert found is not None
    own = found.steps.filter(task=0)
    assert found.milestone == "forward"
    assert (own["end"] - own["start"]).to_list() == [length] * 6


def calls_of(begins: list[int], *names: str, task: int = 0) -> list[tuple[object, ...]]:
    """Calls of MPI that follow on each other, 10 ns each."""
    return [(task, task, at + 10 * n, at + 10 * n + 10, "mpi", name) for at in begins for n, name in enumerate(names)]


@pytest.mark.parametrize(
    ("names", "milestone", "count"),
    [
        (("MPI_Sendrecv", "MPI_Allreduce"), "MPI_Allreduce", 5),
        (("MPI_Allreduce", "MPI_Allreduce", "MPI_Barrier"), "MPI_Barrier", 5),
        (("MPI_Recv", "MPI_Wait", "MPI_Send"), "MPI_Recv", 5),
        (("MPI_Send", "MPI_Isend"), None, 0),
    ],
)
def test_calls_of_mpi_are_milestones_where_no_work_is(
    names: tuple[str, ...], milestone: str | None, count: int
) -> None:
    """Ranks come to a call at any time, and a step has one kernel. All the time between calls counts.

    Collectives come before calls that wait for messages, of which the first after device work counts.
    """
    begins = [n * 1000 + n % 3 * 100 for n in range(6)]
    calls = [one for task in range(2) for one in calls_of(begins, *names, task=task)]
    launches = work(*((task, n * 1000 + 400, GEMM) for task in range(2) for n in range(6)))
    run = run_of(launches, calls)
    found = find_repeats(run)
    assert (found.milestone if found else None) == milestone
    if found:
        assert found.steps.group_by("task").len().sort("task").rows() == [(0, count), (1, count)]
        spans = analyze_run(run, Question()).window.spans
        at = 10 * names.index(str(milestone))
        assert (spans.start.tolist(), spans.end.tolist()) == ([at], [5000 + 200 + at])


def test_the_verdict_gives_no_length_of_iterations_of_which_nothing_can_be_replayed() -> None:
    """Calls of no known communicator are no instants of the graph: there is nothing to predict."""
    calls = [one for task in range(2) for one in calls_of([n * 1000 for n in range(6)], "MPI_Allreduce", task=task)]
    verdict = verdict_of(
        with_findings(analyze_run(run_of(pl.DataFrame(schema=WORK), calls), Question())), [Path("run")]
    )
    assert "Window: steady, iterations 0 to 4, 0.005 ms\n" in verdict
    assert "  Iterations found by `MPI_Allreduce`, which repeats on every rank\n" in verdict


def test_kernels_that_repeat_come_before_calls_of_mpi() -> None:
    launches = steps(LOOP, [1000 * n for n in range(6)])
    calls = [one for task in range(2) for one in calls_of([n * 2000 for n in range(6)], "MPI_Bcast", task=task)]
    found = find_repeats(run_of(launches, calls))
    assert found is not None
    assert found.milestone == "reduce_kernel"


def test_the_work_of_four_devices_is_one_iteration() -> None:
    """One thread launches a kernel on each device, then copies. Every third launch is at usual distances, too."""
    halo, store, copy = (("kernel", name, "other", None) for name in ("halo", "store", "copy"))
    parts = (*4 * (halo, store), *6 * (copy,))
    found = find_repeats(run_of(steps(parts, [1000 * n for n in range(12)])))
    assert found is not None
    assert found.steps.filter(task=0).height == 11


def test_steps_that_are_nearly_alike_are_iterations_of_their_own() -> None:
    """Every second step does two launches more of a hundred."""
    parts = [(*(GEMM,) * (100 + 2 * (n % 2)), COPY_BACK) for n in range(16)]
    launches, at = [], 0
    for one in parts:
        launches += step(0, at, *one)
        at += 10 * len(one)
    found = find_repeats(run_of(work(*launches)))  # type: ignore[arg-type]
    assert found is not None
    assert found.steps.height == 15


def test_a_kernel_that_one_rank_launches_now_and_then_does_not_hide_what_all_launch() -> None:
    """Rank 0 logs each fifth step: that has the longest distance, and rank 1 has no such kernel."""
    log = ("kernel", "log", "other", None)
    launches = [
        one
        for task in range(2)
        for n in range(30)
        for one in step(task, 1000 * n, *LOOP, *((log,) if not task and n % 5 == 0 else ()))
    ]
    found = find_repeats(run_of(work(*launches)))  # type: ignore[arg-type]
    assert found is not None
    assert found.milestone == "reduce_kernel"
    assert found.steps.group_by("task").len().sort("task").rows() == [(0, 29), (1, 29)]


@pytest.mark.parametrize(("repeating", "milestone", "count"), [(REDUCE, "sample", 5), (GRAPH, "graph 1", 23)])
def test_collectives_of_each_layer_are_no_iterations(repeating: tuple[str, ...], milestone: str, count: int) -> None:
    """A token is embedded, passes four layers and is sampled. A graph of each layer is an iteration all the same."""
    embed, sample = (("kernel", name, "other", None) for name in ("embed", "sample"))
    token = (embed, *4 * (GEMM, GEMM, repeating), sample)
    found = find_repeats(run_of(steps(token, [150 * n for n in range(6)])))
    assert found is not None
    assert (found.milestone, found.steps.filter(task=0).height) == (milestone, count)


def test_kernels_that_one_launch_starts_are_no_iterations() -> None:
    """As the nodes of a graph: all of them have one launch."""
    nodes = (*(GEMM,) * 11, COPY_BACK) * 6
    started = work(*[(0, 0, node) for node in nodes])  # type: ignore[misc]
    assert find_repeats(run_of(started, ranks=1)) is None


def test_what_a_program_launches_before_its_first_iteration_does_not_count() -> None:
    """A compiler tries more kernels than all iterations launch together."""
    tried = [one for task in range(2) for one in step(task, 0, *(GEMM,) * 300)]
    looped = [one for task in range(2) for n in range(6) for one in step(task, 100_000 + 1000 * n, *LOOP)]
    found = find_repeats(run_of(work(*tried, *looped)))  # type: ignore[arg-type]
    assert found is not None
    assert found.steps.filter(task=0)["start"].to_list() == [100_100 + 1000 * n for n in range(5)]


def test_an_optimizer_counts_whatever_a_program_tries_before() -> None:
    """Its steps have different numbers of kernels, so that none is at equal places."""
    tried = step(0, 0, *(GEMM,) * 300)
    looped = [one for n in range(6) for one in step(0, 100_000 + 1000 * n, *(GEMM,) * (5 + 7 * n % 11), ADAM)]
    found = find_repeats(run_of(work(*tried, *looped), ranks=1))  # type: ignore[arg-type]
    assert found is not None
    assert found.milestone == "multi_tensor_apply_kernel"
    assert found.steps.height == 5


@pytest.mark.parametrize(("others", "milestone"), [(3, "loop 2"), (2, "tried")])
def test_a_kernel_that_was_tried_before_the_loop_does_not_count(others: int, milestone: str) -> None:
    """It comes at unequal places and seldom, and several other kernels once in each iteration."""
    looped = [(0, OF_ORDER, f"loop {n}", None, 12, 10.0, 190.0, 0.9) for n in range(others)]
    assert chosen_of([(0, OF_ORDER, "tried", None, 5, 40.0, 400.0, 0.6), *looped]) == milestone


@pytest.mark.parametrize(
    ("others", "orderly", "often", "milestone"),
    [
        (3, 1.0, 12, "loop 2"),
        # Too few agree, they are no more orderly, or come several times an iteration.
        (2, 1.0, 12, "most shapes"),
        (3, 0.8, 12, "most shapes"),
        (3, 1.0, 30, "most shapes"),
    ],
)
def test_a_kernel_of_most_shapes_is_no_iteration(others: int, orderly: float, often: int, milestone: str) -> None:
    """Nine of twelve iterations run it, nearly all of them in a row."""
    looped = [(0, OF_ORDER, f"loop {n}", None, often, 41.0, 160.0, orderly) for n in range(others)]
    assert chosen_of([(0, OF_ORDER, "most shapes", None, 9, 55.0, 213.0, 0.875), *looped]) == milestone


def chosen_of(rows: list[tuple[object, ...]]) -> str:
    """Return the name of the milestone that is chosen of REPEATING rows of one process."""
    found = choose_milestone(pl.DataFrame(rows, schema=REPEATING, orient="row"), [0], [])
    assert found is not None
    return found.name


def test_a_milestone_that_one_rank_lacks_is_none() -> None:
    both = pl.concat([steps((GEMM, ADAM), [0, 1000, 2000, 3000, 4000], tasks=1), work(*step(1, 0, GEMM))])  # type: ignore[arg-type]
    assert find_repeats(run_of(both)) is None


def test_a_helper_without_optimizer_hides_no_iterations_of_the_ranks_that_train() -> None:
    begins = [0, 3000, 4000, 5000, 6000, 7000]
    helper = work(*((2, at, GEMM) for at in range(0, 7000, 90)))
    found = find_repeats(run_of(pl.concat([steps((GEMM, GEMM, ADAM), begins), helper])))
    assert found is not None
    assert found.milestone == "multi_tensor_apply_kernel"
    assert sorted(found.steps["task"].unique()) == [0, 1]


def test_the_iterations_of_a_rank_that_began_late_are_the_last_ones() -> None:
    begins = [0, 1000, 2000, 3000, 4000, 5000]
    first, second = (steps((GEMM, ADAM), part, tasks=2).filter(task=n) for n, part in enumerate((begins, begins[1:])))
    found = find_repeats(run_of(pl.concat([first, second])))
    assert found is not None
    assert found.steps.filter(task=1)["number"].to_list() == [1, 2, 3, 4]


@pytest.mark.parametrize(("of_other", "numbers"), [
    # It recorded as long, and began three iterations later.
    ([1000 * n + 3010 for n in range(9)], [3, 4, 5, 6, 7, 8, 9, 10]),
    # It began earlier.
    ([1000 * n - 1990 for n in range(9)], [0, 1, 2, 3, 4, 5, 6, 7]),
    # It recorded fewer, and is two thirds of an iteration behind the other one.
    ([1000 * n + 2670 for n in range(8)], [3, 4, 5, 6, 7, 8, 9]),
    # It never waits for the other one, and takes half as long again: the last ones belong together.
    ([1500 * n for n in range(9)], [0, 1, 2, 3, 4, 5, 6, 7]),
])  # fmt: skip
def test_iterations_at_one_time_belong_together(of_other: list[int], numbers: list[int]) -> None:
    begins = [1000 * n for n in range(9)]
    first, second = (steps((GEMM, ADAM), part, tasks=2).filter(task=n) for n, part in enumerate((begins, of_other)))
    found = find_repeats(run_of(pl.concat([first, second])))
    assert found is not None
    assert found.steps.filter(task=1)["number"].to_list() == numbers
    earlier = 2 if of_other[0] < 0 else 0
    assert found.steps.filter(task=0)["number"].to_list() == [earlier + n for n in range(8)]


def test_a_rank_that_lags_behind_has_the_same_iterations() -> None:
    """Its device works for most of an iteration, and is 600 ns late in each of 1,000 ns."""
    parts = (*75 * (GEMM,), ADAM)
    first, second = (
        steps(parts, [1000 * n + 600 * task for n in range(9)], tasks=2).filter(task=task) for task in (0, 1)
    )
    found = find_repeats(run_of(pl.concat([first, second])))
    assert found is not None
    assert found.steps["number"].to_list() == 2 * [*range(8)]


@pytest.mark.parametrize("every", [10, 8])
def test_what_comes_every_few_iterations_is_none(every: int) -> None:
    """Something is logged every ten iterations of 61 kernels and a collective, or every eight tokens of four layers."""
    log = ("kernel", "log_loss", "other", None)
    step_of = (
        (*61 * (GEMM,), REDUCE) if every == 10 else (("kernel", "embed", "other", None), *4 * (GEMM, REDUCE), GEMM)
    )
    launches, at = [], 0
    for n in range(6 * every):
        parts = (*step_of, log) if n % every == 0 else step_of
        launches += [one for task in (0, 1) for one in step(task, at, *parts)]
        at += 10 * len(parts)
    found = find_repeats(run_of(work(*launches)))
    assert found is not None
    assert found.steps.filter(task=0).height == 6 * every - 1


def test_json_and_text_say_how_iterations_were_found() -> None:
    run = run_of(steps((GEMM, ADAM), [0, 1000, 2000, 3000, 4000, 5000]))
    found = analyze_run(run, Question())
    assert found.as_json()["iterations"]["found_by"] == "multi_tensor_apply_kernel"
    assert "Iterations found by `multi_tensor_apply_kernel`" in text_of(found, held=False)
    assert found.iterations["iteration"].unique().sort().to_list() == [0, 1, 2, 3, 4]
    numbered = run_of(run.work, (), [(t, 0, 1000 * n, 1000 * n + 900, f"step {n}") for t in (0, 1) for n in range(6)])
    assert analyze_run(numbered, Question()).as_json()["iterations"]["found_by"] is None

"""Pipelines: schedules of equal stages have the ideal bubble; rings, stars and one-way messages are none."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import combinations
from types import FrameType

import polars as pl
import pytest
from analysis_cases import run_of
from runs import reports_of

import nsys2prv
from nsys2prv.analysis.communication.pipeline import pipelines
from nsys2prv.analysis.frames import PART, TEXT, WORK, Run
from nsys2prv.analysis.iterations.phases import OCCURRENCE
from nsys2prv.model.frames import RECEIVE, SEND

UNIT = 1000
RANGES = pl.DataFrame(schema={"task": pl.Int64(), "start": pl.Int64(), "end": pl.Int64(), "text": pl.String()})


def run_of_messages(computing: list[tuple[int, int]], messages: list[tuple[int, int, int]], ranks: int) -> Run:
    """Return a run: (task, begin) of kernels of a unit, and (source, target, time) of messages without length."""
    work = [row(task, task, begin, begin + UNIT, "kernel") for task, begin in computing]
    parts = []
    for n, (source, target, time) in enumerate(messages):
        for task, peer in ((source, target), (target, source)):
            # A stream for each peer.
            stream = 100 + 10 * task + peer
            kind, arrival = SEND if task == source else RECEIVE, (True, True, time, max(source, target))
            work.append(row(task, stream, time, time + 1, "nccl"))
            parts.append((n, "nccl", kind, task, stream, "world", 8, time, time + 1, *arrival))
    frame = pl.DataFrame(work, schema=WORK, orient="row").sort("start", "row")
    return run_of(frame, ranks=ranks)._replace(parts=pl.DataFrame(parts, schema=PART, orient="row"))


def row(task: int, stream: int, start: int, end: int, kind: str) -> tuple[object, ...]:
    return (task, task, stream, start, end, *[kind] * 4, *[None] * 3, start, *[None] * 3, False, None, None)


def steps(ranks: int, end: int) -> pl.DataFrame:
    return pl.DataFrame([(task, 0, 0, 0, end, "step") for task in range(ranks)], schema=OCCURRENCE, orient="row")


@pytest.fixture
def ends_soon() -> Iterator[None]:
    """A walk round a ring would have no end, and take all memory."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def both_ways(*pairs: tuple[int, int]) -> list[tuple[int, int]]:
    return [*pairs, *((b, a) for a, b in pairs)]


def test_the_optimizer_of_the_iteration_before_is_no_part_of_a_pipeline() -> None:
    """Where no range numbers them, iterations begin with it, on each stage when its backward is done."""
    computing = [(0, 0), (1, UNIT), (1, 2 * UNIT), (0, 3 * UNIT)]
    run = run_of_messages(computing, [(0, 1, UNIT), (1, 0, 3 * UNIT)], 2)
    optimizer = [row(task, task, -(3 + task) * UNIT, -(2 + task) * UNIT, "kernel") for task in (0, 1)]
    before = pl.DataFrame(optimizer, schema=WORK, orient="row").with_columns(family=pl.lit("optimizer").cast(TEXT))
    found, expected = (
        pipelines(one, RANGES, steps(2, 4 * UNIT).with_columns(start=pl.lit(-5 * UNIT, pl.Int64)))
        for one in (run._replace(work=pl.concat([before, run.work])), run)
    )
    assert found.equals(expected)
    assert found["warm_up_ns"].to_list() == [0, UNIT]


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 4, 8])
def test_equal_stages_have_the_ideal_bubble(stages: int, count: int) -> None:
    """All forward, then all backward, each for a unit: stage s begins after s units and ends s units before the end."""
    half = count + stages - 1
    computing = [(s, (s + i) * UNIT) for s in range(stages) for i in range(count)]
    computing += [(s, (half + stages - 1 - s + i) * UNIT) for s in range(stages) for i in range(count)]
    messages = [(s, s + 1, (s + 1 + i) * UNIT) for s in range(stages - 1) for i in range(count)]
    messages += [(s + 1, s, (half + stages - 1 - s + i) * UNIT) for s in range(stages - 1) for i in range(count)]
    found = pipelines(run_of_messages(computing, messages, stages), RANGES, steps(stages, 2 * half * UNIT))
    assert found["rank"].to_list() == [*range(stages)]
    assert found["microbatches"].to_list() == [count] * stages
    assert found["bubble"].to_list() == pytest.approx(found["ideal"].to_list())
    assert found["ideal"][0] == pytest.approx((stages - 1) / (count + stages - 1))
    for s, warm_up, drain, between in found.select("stage", "warm_up_ns", "drain_ns", "between_ns").rows():
        assert (warm_up, drain, between) == (s * UNIT, s * UNIT, 2 * (stages - 1 - s) * UNIT)


def test_sends_of_the_first_stage_are_microbatches_though_few_have_a_partner() -> None:
    """Where a receive came late, ends do not tell of which send it is."""
    computing = [(s, (s + 2 * i) * UNIT) for s in range(2) for i in range(4)]
    messages = [(0, 1, (1 + 2 * i) * UNIT) for i in range(4)] + [(1, 0, (2 + 2 * i) * UNIT) for i in range(4)]
    run = run_of_messages(computing, messages, 2)
    sends = run.parts.filter(pl.col("kind") == SEND).select("row", start="began").unique()
    kernels = run.work.drop("operation").join(
        sends.with_columns(operation=pl.lit("Send", TEXT)), on=["row", "start"], how="left"
    )
    few = run.parts.filter(pl.col("began") < 3 * UNIT)
    found = pipelines(run._replace(work=kernels.select(*WORK), parts=few), RANGES, steps(2, 9 * UNIT))
    assert found["microbatches"].to_list() == [4, 4]


@pytest.mark.parametrize(
    ("pairs", "chains"),
    [
        ([(0, 1), (1, 0), (1, 2), (2, 1)], [[0, 1, 2]]),
        ([(2, 1), (1, 2), (1, 0), (0, 1)], [[2, 1, 0]]),  # rank 2 sends first
        ([(0, 1), (1, 0), (2, 3), (3, 2)], [[0, 1], [2, 3]]),
        ([(0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2)], []),  # a ring
        ([(0, n) for n in (1, 2, 3)] + [(n, 0) for n in (1, 2, 3)], []),  # a star
        ([(0, 1), (1, 2)], []),  # one way
        (both_ways((0, 1), (1, 2), (2, 0), (0, 3)), []),  # a ring with a tail
        (both_ways((0, 1), (1, 2), (2, 3), (3, 1)), []),  # a tail of two to a ring
        (both_ways((0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)), []),  # two rings that share a rank
        (both_ways((0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)), []),  # two rings joined
        (both_ways((0, 1), (1, 2), (2, 0), (3, 0), (4, 1), (5, 3)), []),  # a ring with two tails
        (both_ways((0, 1), (1, 2), (2, 3), (1, 4)), []),  # branches
        (both_ways(*combinations(range(4), 2), (3, 4)), []),  # all with all, and a tail
        (both_ways((0, 1), (1, 2), (2, 0), (3, 4), (4, 5)), [[3, 4, 5]]),  # a ring beside a chain
    ],
)
@pytest.mark.usefixtures("ends_soon")
def test_chains_are_found(pairs: list[tuple[int, int]], chains: list[list[int]]) -> None:
    messages = [(source, target, (n + 1) * UNIT) for n, (source, target) in enumerate(pairs)]
    run = run_of_messages([(task, 0) for task in range(6)], messages, 6)
    found = pipelines(run, RANGES, steps(6, 100 * UNIT))
    assert [own["rank"].to_list() for own in found.partition_by("pipeline", maintain_order=True)] == chains


@pytest.mark.shared
def test_stages_of_a_mesh_are_the_pairs_of_its_program() -> None:
    found = nsys2prv.analyze(reports_of("mesh-tp-pp")).explanation.stages
    ranks = [own["rank"].to_list() for own in found.partition_by("pipeline", maintain_order=True)]
    assert ranks == [[0, 2], [1, 3]]
    assert found["microbatches"].to_list() == [4] * 4
    sums = found.select(pl.sum_horizontal("useful_ns", "warm_up_ns", "between_ns", "drain_ns")).to_series()
    assert sums.to_list() == pytest.approx(found["window_ns"].to_list())

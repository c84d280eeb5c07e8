"""Kernels that wait until a kernel of another stream leaves room on their device."""

from __future__ import annotations

import polars as pl
import pytest
from pictures import US, drawn

from nsys2prv.analysis.communication.waiting import carried
from nsys2prv.analysis.frames import WAIT, Hardware, Run
from nsys2prv.analysis.graph.critical_path import critical_path
from nsys2prv.analysis.graph.dependencies import dependencies
from nsys2prv.analysis.graph.edges import EdgeKind
from nsys2prv.analysis.graph.nodes import end_node
from nsys2prv.analysis.idle.idle_causes import idle_causes
from nsys2prv.analysis.predict.change import parse_change
from nsys2prv.analysis.predict.changed_lengths import with_room
from nsys2prv.analysis.predict.joins import find_joins
from nsys2prv.analysis.predict.replay import Lengths, measured_lengths, replay
from nsys2prv.analysis.question import Question
from nsys2prv.commands.whatif import predictions_of
from nsys2prv.intervals.spans import one_span
from nsys2prv.model.frames import STREAM_WAIT_EVENT
from nsys2prv.report.identity import Capacity

# The part of NCCL is launched while the kernel runs, and begins shortly before that ends.
BESIDE = "0| k @0 10-110, N @5 109-150"


def on_device(picture: str, blocks: int = 8, multiprocessors: int = 4) -> Run:
    """A drawn run whose kernels have so many blocks, on devices of so many multiprocessors. Waits for events count."""
    run = drawn(picture)
    shape = (blocks << 32) + (1 << 16) + 1
    work = run.work.with_columns(shape=pl.lit(shape, pl.Int64))
    capacity = Capacity(multiprocessors=multiprocessors)
    waits = pl.DataFrame([(STREAM_WAIT_EVENT, 0, 1, 0, 8, None, None)], schema=WAIT, orient="row")
    return run._replace(work=work, waits=waits, hardware=(Hardware(capacity=capacity),) * len(run.devices))


def test_the_critical_path_runs_through_the_kernel_that_leaves_no_room() -> None:
    run = on_device(BESIDE)
    path = critical_path(run, dependencies(run, carried(run)), one_span(10 * US, 150 * US))
    pieces = path.select("kind", pl.col("start", "end") // US, "name", "row", "node").rows()
    beside, own = end_node(0), end_node(1)
    assert pieces == [("compute", 10, 109, "kernel", 0, beside), ("transfer", 109, 150, "nccl", 8, own)]


@pytest.mark.parametrize(
    ("factor", "end"),
    [
        (1.0, 150),
        # 49.5 of 99 us, and 41 of the part of NCCL.
        (0.5, 100.5),
        (2.0, 249),
    ],
)
def test_the_wait_for_room_lasts_as_long_as_the_kernel(factor: float, end: float) -> None:
    run = on_device(BESIDE)
    graph = dependencies(run, carried(run))
    measured = measured_lengths(graph)
    along = measured.along.copy()
    along[end_node(0)] = along[end_node(0)] * factor
    (times,) = replay(find_joins(graph), [lambda: with_room(graph, measured, Lengths(along, measured.crossing))])
    assert times[end_node(1)] == end * US


def test_a_prediction_for_the_kernel_shortens_the_wait_of_the_one_beside_it() -> None:
    found = predictions_of(on_device(BESIDE), Question(), [parse_change("kernel*0.5")])
    assert (found.measured_ns, found.iteration_ns, found.replay_error) == (140 * US, 90.5 * US, 0)


@pytest.mark.parametrize(
    ("picture", "sizes", "waits"),
    [
        (BESIDE, (8, 4), True),
        (BESIDE, (4, 4), True),
        # A kernel of as many blocks as begin at once in half of the device.
        (BESIDE, (2, 4), False),
        # The size of the device is not known.
        (BESIDE, (8, 0), False),
        ("0| k @0 10-110, N @5 61-150", (8, 4), True),
        ("0| k @0 10-110, N @5 59-150", (8, 4), False),
        ("0| k @0 10-110, N @5 120-150", (8, 4), True),
        ("0| k @0 10-110, N @5 121-150", (8, 4), False),
        # Launched 8 us before it could begin, which is 20 us before it did, and 19.
        ("0| k @0 10-110, N @81 109-150", (8, 4), True),
        ("0| k @0 10-110, N @82 109-150", (8, 4), False),
        # It could have begun before the kernel did.
        ("0| k @0 20-110, N @5 109-150", (8, 4), False),
        # The kernels of one stream follow each other.
        ("0| k @0 10-110, k @5 110-150", (8, 4), False),
    ],
)
def test_work_waits_for_room_only_beside_a_kernel_that_fills_the_device(
    picture: str, sizes: tuple[int, int], waits: bool
) -> None:
    run = on_device(picture, *sizes)
    graph = dependencies(run, carried(run))
    assert (graph.edges.kind == EdgeKind.ROOM).sum() == waits
    assert (graph.at_begins(graph.binds)[1] == EdgeKind.ROOM) == waits


def test_a_device_that_idles_until_work_had_room_waits_for_a_dependency() -> None:
    run = on_device("0| k @0 10-110, N @5 118-150")
    causes = idle_causes(run, dependencies(run, carried(run)), one_span(10 * US, 150 * US))
    assert causes.filter(pl.col("span").is_null(), pl.col("rank") == 0)["dependency_ns"].to_list() == [8 * US]

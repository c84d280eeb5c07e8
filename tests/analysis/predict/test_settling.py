"""Scenarios are replayed again while other communication runs beside their kernels: against plain steps."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from runs import reports_of

from nsys2prv.analysis.communication.contention import beside_communication
from nsys2prv.analysis.communication.waiting import carried
from nsys2prv.analysis.graph.dependencies import dependencies
from nsys2prv.analysis.graph.nodes import work_of_node
from nsys2prv.analysis.iterations.located import locate
from nsys2prv.analysis.predict.change import parse_change
from nsys2prv.analysis.predict.changed_lengths import changed_lengths
from nsys2prv.analysis.predict.joins import find_joins
from nsys2prv.analysis.predict.model import Model, model_of
from nsys2prv.analysis.predict.replay import Lengths, measured_lengths, replay
from nsys2prv.analysis.predict.whatif import SETTLING_REPLAYS, predict
from nsys2prv.analysis.question import Question
from nsys2prv.commands.analyze import open_run
from nsys2prv.intervals.spans import Times


@pytest.fixture(scope="module")
def model() -> Model:
    """A data-parallel run whose products take three times as long beside communication."""
    with open_run(reports_of("checkpoint")) as run:
        located = locate(run, Question())
        graph = dependencies(run, carried(run))
        return model_of(run, graph, located.main, located.steps, located.window, by_ends=False)


def begins_and_ends(model: Model, lengths: Lengths) -> tuple[Times, Times]:
    """When each device work begins and ends with these lengths."""
    (times,) = replay(find_joins(model.graph), [lambda: lengths])
    return model.graph.at_begins(times), model.graph.at_ends(times)


def arrivals(model: Model, begin: Times, end: Times) -> Times:
    """When the last rank came to the operation of each NCCL kernel, operation by operation."""
    parts = model.run.parts.filter(pl.col("family") == "nccl").select("operation", "row", start="began")
    work = model.run.work.with_row_index("work").select("work", "row", "start")
    ready = begin.copy()
    for (_,), own in parts.join(work, on=["row", "start"]).group_by("operation"):
        members = own["work"].unique().to_numpy()
        if len(members) > 1:
            ready[members] = np.minimum(begin[members].max(), end[members])
    return ready


@pytest.mark.parametrize(("change", "adapted"), [("transfer=0", True), ("imbalance=0", True), ("delay=0", False)])
def test_kernels_take_as_long_as_what_then_runs_beside_them_lets_them(model: Model, change: str, adapted: bool) -> None:
    lengths = changed_lengths(model, measured_lengths(model.graph), parse_change(change))
    graph, of_work = model.graph, model.graph.at_ends(lengths.along)
    own, measured = of_work.copy(), graph.at_ends(graph.time) - graph.at_begins(graph.time)
    begin, end = begins_and_ends(model, lengths)
    first = spans(model, begin, end)
    for _ in range(SETTLING_REPLAYS):
        waiting, transfer = beside_communication(model.run, begin, arrivals(model, begin, end), end)
        beside = model.slowdown.alone_ns * np.exp(waiting * model.slowdown.waiting + transfer * model.slowdown.transfer)
        of_work[:] = np.rint(own * beside / measured)
        begin, end = begins_and_ends(model, lengths)
    (found,) = predict(model, [[parse_change(change)]])
    assert found.iterations["predicted_ns"].to_list() == pytest.approx(spans(model, begin, end))
    assert (spans(model, begin, end) != first) == adapted


def spans(model: Model, begin: Times, end: Times) -> list[int]:
    """The times from the begin of each iteration's device work to that of the next, or its own end."""
    number = work_of_node(model.marks["first"].to_numpy())
    work = model.marks.with_columns(start=pl.Series(begin).gather(number), end=pl.Series(end).gather(number))
    first, last = (
        dict(work.group_by("number").agg(edge).rows()) for edge in (pl.col("start").min(), pl.col("end").max())
    )
    return [first.get(n + 1, last[n]) - first[n] for n in sorted(number for number, _ in model.kept)]

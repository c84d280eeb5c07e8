"""Answers to "what if": iteration times that a replay of the dependency graph predicts for changed lengths."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.communication.contention import beside_communication
from nsys2prv.analysis.iterations.from_one_to_the_next import from_one_to_the_next
from nsys2prv.analysis.iterations.window import iterations_frame
from nsys2prv.analysis.predict.change import HOST, Change, parse_change
from nsys2prv.analysis.predict.changed_lengths import changed_lengths, with_room
from nsys2prv.analysis.predict.joins import find_joins
from nsys2prv.analysis.predict.model import Model, ready_times
from nsys2prv.analysis.predict.no_effect import Changed
from nsys2prv.analysis.predict.replay import Lengths, measured_lengths, replay
from nsys2prv.intervals.spans import Times, first_of_equals
from nsys2prv.model.schemas import to_schema

# Iterations and their times (ns): from the begin of an iteration to that of the next one; without a next one to its own
# end: of its device work, or of its first host, whichever comes later. Where iterations overlap on devices as they were
# measured, from the end of one to that of the next. Without iterations there is one row, with null, for all of the run.
PREDICTED = {"iteration": pl.Int64(), "repeat": pl.Int64(), "measured_ns": pl.Int64(), "predicted_ns": pl.Int64()}
# How often a scenario is replayed again, because other communication runs beside its kernels, which slows them.
SETTLING_REPLAYS = 2
# Changes that `analyze` tries.
STANDARD = tuple(map(parse_change, ("transfer=0", "imbalance=0", "launch=0", "delay=0", "host=0")))
# Changes that it tries both at once where busy hosts hide what transfers cost.
HIDDEN_BY_HOSTS = tuple(map(parse_change, ("transfer=0", "host=0")))


# What busy hosts hide of a gain counts from this part of the measured time on.
LEAST_HIDDEN = 0.03


class WithoutHosts(NamedTuple):
    """The mean time of an iteration (ns) if the work of hosts took no time: alone, and with the changes as well."""

    alone_ns: float
    changed_ns: float


class Prediction(NamedTuple):
    """Times of the iterations under some changes (PREDICTED), and the largest relative error of an unchanged replay.

    `changes`: as they were written; `earlier_ns`: by how much the iterations begin earlier, the sum over repeats. Only
    `what_if` looks for the others: `without_effect`: changes that change nothing in this run; `why`: the reason for
    each of them; `without_hosts`: None where the changes are of hosts; `changed`: what the changes alter.
    """

    changes: tuple[str, ...]
    iterations: pl.DataFrame
    replay_error: float
    without_effect: tuple[str, ...] = ()
    earlier_ns: int = 0
    without_hosts: WithoutHosts | None = None
    why: tuple[str, ...] = ()
    changed: Changed | None = None

    @property
    def ends_no_later(self) -> bool:
        """Return whether the iterations take longer only because they begin earlier, and end as they did or earlier.

        Of several repeats one may end later and another one earlier: then it is False.
        """
        if self.iterations["repeat"].n_unique() > 1:
            return False
        longer = (self.iteration_ns - self.measured_ns) * self.iterations.height
        return 0 < longer <= self.earlier_ns

    @property
    def hosts_hide_gain(self) -> bool:
        """Return whether hosts hide as much of what the changes gain as they show, or more, and enough to tell."""
        if self.without_hosts is None:
            return False
        shown = max(self.measured_ns - self.iteration_ns, 0)
        hidden = self.without_hosts.alone_ns - self.without_hosts.changed_ns - shown
        return hidden >= max(LEAST_HIDDEN * self.measured_ns, shown)

    @property
    def measured_ns(self) -> float:
        """Return the mean measured time of an iteration."""
        return float(self.iterations["measured_ns"].mean() or 0)  # type: ignore[arg-type]

    @property
    def iteration_ns(self) -> float:
        """Return the mean predicted time of an iteration."""
        return float(self.iterations["predicted_ns"].mean() or 0)  # type: ignore[arg-type]

    @property
    def gain(self) -> float:
        """Return the share of the measured time that the changes save."""
        return 1 - self.iteration_ns / self.measured_ns if self.measured_ns else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the prediction as JSON values."""
        return {
            "changes": list(self.changes),
            "replay_error": self.replay_error,
            "measured_ns": self.measured_ns,
            "iteration_ns": self.iteration_ns,
            "gain": self.gain,
            "without_effect": list(self.without_effect),
            "without_hosts": self.without_hosts._asdict() if self.without_hosts else None,
            "iterations": self.iterations.to_dicts(),
        }


def predict(model: Model, scenarios: Sequence[Sequence[Change]]) -> list[Prediction]:
    """Predict each scenario, a list of changes made together. Raises UsageError for a target that the run lacks."""
    times = _settled(_Scenarios(model, [(), *scenarios]))
    measured = _iteration_times(model, model.graph.time, ())
    as_measured = _predicted(measured, times[0])
    lasting = as_measured.filter(pl.col("measured_ns") > 0)
    error = (lasting["predicted_ns"] / lasting["measured_ns"] - 1).abs().max()
    return [
        Prediction(
            tuple(change.text for change in changes),
            _predicted(measured, found),
            float(error or 0),  # type: ignore[arg-type]
            earlier_ns=_begins(measured) - _begins(found),
        )
        for changes, found in zip(scenarios, times[1:], strict=True)
    ]


class _Scenarios:
    """Scenarios by their changes. Their lengths are made each time that they are asked for: they take much memory.

    `measured`: lengths that change nothing; `changed_work`: the lengths of the device work (ns) by the changes of a
    scenario, once they were made; `adapted_work`: of the scenarios that were adapted, those in place of them.
    """

    def __init__(self, model: Model, changes: Sequence[Sequence[Change]]) -> None:
        self.model, self.changes = model, changes
        self.measured = Lengths(*map(_narrow, measured_lengths(model.graph)))
        self.changed_work: dict[int, Times] = {}
        self.adapted_work: dict[int, Times] = {}

    def lengths(self, number: int) -> Lengths:
        """Return the lengths of a scenario."""
        lengths = Lengths(*(ns.astype(np.int64) for ns in self.measured))
        for change in self.changes[number]:
            lengths = changed_lengths(self.model, lengths, change)
        work = self.model.graph.at_ends(lengths.along)
        if number not in self.changed_work:
            self.changed_work[number] = _narrow(work.copy())
        if number in self.adapted_work:
            work[:] = self.adapted_work[number]
        return with_room(self.model.graph, self.measured, lengths)

    def adapt(self, number: int, times: Times) -> bool:
        """Adapt a scenario to the communication beside kernels by the nodes' times. Returns False if it is so already.

        The first scenario is the run as it is, and is not adapted.
        """
        if not number:
            return False
        by_changes = self.changed_work[number]
        slowed = _beside(self.model, by_changes, times)
        if (slowed == self.adapted_work.get(number, by_changes)).all():
            return False
        self.adapted_work[number] = slowed
        return True


def _settled(scenarios: _Scenarios) -> list[pl.DataFrame]:
    """Replay scenarios. If other communication runs beside kernels then, adapt their lengths and replay again.

    Returns the times of the iterations of each scenario (see `_iteration_times`).
    """
    model, moved = scenarios.model, list(range(len(scenarios.changes)))
    joins, found = find_joins(model.graph), [pl.DataFrame()] * len(moved)
    turns = SETTLING_REPLAYS if model.slowdown.table.height else 0
    for turn in range(turns + 1):
        again = []
        for n, times in zip(moved, replay(joins, [partial(scenarios.lengths, n) for n in moved]), strict=True):
            found[n] = _iteration_times(model, times, scenarios.changes[n])
            if turn < turns and scenarios.adapt(n, times):
                again.append(n)
        moved = again
        if not moved:
            break
    return found


def _beside(model: Model, kernels: Times, times: Times) -> Times:
    """Return the lengths of device work (ns), `kernels`, adapted to the communication beside by the nodes' times."""
    graph = model.graph
    begin, end = graph.at_begins(times), graph.at_ends(times)
    waiting, transfer = beside_communication(model.run, begin, ready_times(graph, times), end)
    length = graph.at_ends(graph.time) - graph.at_begins(graph.time)
    slowed: Times = np.rint(kernels * model.slowdown.beside(waiting, transfer) / length).astype(np.int64)
    return slowed


def _narrow(lengths: Times) -> Times:
    """Return lengths in half of the memory if they fit."""
    fits = len(lengths) and np.iinfo(np.int32).min < lengths.min() and lengths.max() < np.iinfo(np.int32).max
    return lengths.astype(np.int32) if fits else lengths


def _predicted(measured: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    both = measured.rename({"ns": "measured_ns"}).with_columns(found["ns"].alias("predicted_ns"))
    return to_schema(both, PREDICTED)


def _begins(iterations: pl.DataFrame) -> int:
    """Return when the first iteration of each repeat begins (ns), the sum."""
    return int(iterations.group_by("repeat").agg(pl.col("start").min())["start"].sum())


def _iteration_times(model: Model, times: Times, changes: Sequence[Change]) -> pl.DataFrame:
    """Return iteration, repeat, start and ns of the iterations that count, by the nodes' times under some changes."""
    if model.marks.is_empty():
        counted = model.graph.of_work_or_all(times)
        start, whole = (int(counted.min()), int(np.ptp(counted))) if len(counted) else (0, 0)
        return pl.DataFrame({"iteration": [None], "repeat": [None], "start": [start], "ns": [whole]})
    spans = from_one_to_the_next(_spans(model, times, changes), model.by_ends)
    timed = spans.select("repeat", start="begin", iteration="number", ns=pl.col("until") - pl.col("begin"))
    timed = timed.sort("repeat", "iteration")
    if not model.kept:
        return timed
    kept = iterations_frame(model.kept).rename({"number": "iteration"})
    return timed.join(kept, on=["iteration", "repeat"], how="semi", maintain_order="left")


def _spans(model: Model, times: Times, changes: Sequence[Change]) -> pl.DataFrame:
    """Return repeat, number, start and end (ns) of all iterations, by the nodes' times under some changes."""
    key = ("repeat", "number")
    begins = np.flatnonzero(np.logical_or(*(first_of_equals(model.marks[c].to_numpy()) for c in key)))
    first, last = (times[model.marks[c].to_numpy()] for c in ("first", "last"))
    ends = {"start": np.minimum.reduceat(first, begins), "end": np.maximum.reduceat(last, begins)}
    spans = model.marks.select(key)[begins].with_columns(**{c: pl.Series(ns) for c, ns in ends.items()})
    of_hosts = prod(change.factor for change in changes if change.target == HOST)
    left = model.tails.with_columns(host_end=pl.Series(times[model.tails["node"].to_numpy()], dtype=pl.Int64))
    host_end = pl.col("host_end") + (of_hosts * pl.col("tail_ns")).round().cast(pl.Int64)
    # The next iteration would have begun with the first rank to begin it.
    hosts = left.group_by(key).agg(host_end.min())
    spans = spans.join(hosts, on=key, how="left", maintain_order="left")
    return spans.select(*key, "start", end=pl.max_horizontal("end", "host_end"))

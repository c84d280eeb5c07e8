"""Work at equal places in the order of launches, by which iterations are found where nothing better repeats.

A program launches the same work in each iteration, however long it pauses between. A loop of few kernels is none:
programs repeat kernels within their iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.intervals.spans import Indices, Mask

# Lowest number of launches of a milestone, and of runs of them.
FEWEST_REPEATS = 4
# A distance in the order of launches is usual if it differs from the median one by at most this share of it.
DISTANCE_TOLERANCE = 0.1
# Kernels come equally often if their numbers differ by at most this share.
COUNT_TOLERANCE = 0.1
# Lowest share of usual distances of a milestone; and of one that alone tells iterations, or of runs with the median
# length for a kernel that comes in runs, as in each layer of a model.
LEAST_USUAL_SHARE, STRICT_USUAL_SHARE = 0.6, 0.75
# A kernel may come so many times in an iteration: then every second, third, ... launch is a milestone.
MOST_LAUNCHES_OF_ITERATION = 8
# If so many distances of a kernel are usual, and too short for an iteration, it is a loop within an iteration.
SHORT_LOOP_SHARE = 0.9
# An iteration is short below so many times the fewest activities of one.
SHORT_LOOP = 2
# Of a step clearly more distances are equal than of another one: so many times their share; 8/7 of groups of eight.
CLEARLY_MORE = 1.1
# Most kernels of a process that are looked at, those with the longest distances first.
MOST_KERNEL_NAMES = 100


class Ordered(NamedTuple):
    """Work of one name at equal places: the rows of its milestones, and the share of usual distances."""

    name: str
    rows: Indices
    orderly: float


def work_in_order(own: pl.DataFrame, candidates: Mask, least: int) -> Iterator[Ordered]:
    """Yield the work at equal places in the order of launches of one process (LAUNCHED_WORK in that order).

    `candidates`: the rows that may be milestones; `least`: the fewest rows of an iteration. The longest distances come
    first: kernels with shorter ones repeat within an iteration. Work of a part of the program, such as the evaluation
    after each epoch, is left out.
    """
    every = _places(own, candidates)
    regular = {own["name"][int(at[0])]: at for one in every if len(at := _every_few(one, least))}
    regular |= _runs(regular)
    distances = {name: float(np.median(np.diff(at))) for name, at in regular.items()}
    longest = sorted(distances, key=lambda name: (-distances[name], name))[:MOST_KERNEL_NAMES]
    steps = {name: _Steps.between(regular[name]) for name in longest}
    for name, each in steps.items():
        if not any(each.pause_for(other) for other in steps.values()):
            yield Ordered(name, each.at, _usual_share(np.diff(each.at)))


class _Steps(NamedTuple):
    """Places of a kernel, which of the steps between them are long, and how many places are in the other steps."""

    at: Indices
    long: Mask
    held: int

    @classmethod
    def between(cls, at: Indices) -> _Steps:
        """Return the steps between the places of a kernel."""
        distances = np.diff(at)
        long = distances > FEWEST_REPEATS * np.median(distances)
        return cls(at, long, int(distances[~long].sum()))

    def pause_for(self, other: _Steps) -> bool:
        """Return True if the other kernel has a loop with more work in a long step of this one, and only there."""
        if not self.long.any() or other.held <= self.held:
            return False
        between = np.diff(np.searchsorted(other.at, self.at))
        return not between[~self.long].any() and int(between[self.long].max()) >= FEWEST_REPEATS


def _runs(regular: Mapping[str, Indices]) -> dict[str, Indices]:
    """Return where runs of kernels begin that come as often as the rarest one, and take turns with others of these.

    A model's layers launch some kernels forward and others backward: all layers do the one before any does the other.
    """
    if not regular:
        return {}
    rarest = max(regular.values(), key=lambda at: float(np.median(np.diff(at))))
    as_often = {name: at for name, at in regular.items() if abs(len(at) - len(rarest)) <= COUNT_TOLERANCE * len(rarest)}
    in_turns = next((at for at in as_often.values() if len(_run_begins(rarest, at))), None)
    if in_turns is None:
        return {}
    begins = {name: (_run_begins(at, in_turns), _run_begins(at, rarest)) for name, at in as_often.items()}
    return {name: max(found, key=len) for name, found in begins.items() if any(map(len, found))}


def _run_begins(at: Indices, other: Indices) -> Indices:
    """Return the places of a kernel behind another one's; empty unless between them are several, as many each time."""
    begins = np.flatnonzero(np.diff(np.searchsorted(other, at), prepend=-1))
    lengths = np.diff(np.append(begins, len(at)))
    usual = np.median(lengths)
    alike = len(begins) >= FEWEST_REPEATS and usual > 1 and float((lengths == usual).mean()) >= STRICT_USUAL_SHARE
    return at[begins] if alike else at[:0]


def _places(own: pl.DataFrame, candidates: Mask) -> Iterator[Indices]:
    """Yield the places of each name in the order of launches, if it may be a milestone and comes often enough.

    Of the kernels that one launch starts, such as those of a graph, the first counts.
    """
    places = np.flatnonzero(candidates & own["name"].is_not_null().to_numpy())
    numbers, launched = own["name"].to_physical()[places].to_numpy(), own["launched"].to_numpy()
    order = np.argsort(numbers, kind="stable")
    for every in np.split(places[order], np.flatnonzero(np.diff(numbers[order])) + 1):
        first = every[np.diff(launched[every], prepend=launched[every[:1]] - 1) > 0]
        if len(first) >= FEWEST_REPEATS:
            yield first


def _every_few(at: Indices, least: int) -> Indices:
    """Return the places at equal distances among those of one kernel: all, or every second, third, ... from the last.

    The first step with usual distances counts. A later step replaces it if nearly all of its distances are equal, or
    clearly more: of kernels in groups of five, every fourth has the usual distance in four of five cases, and every
    fifth always has it, but for iterations with other work in them. In a short loop one activity more is a usual
    distance, too: there, of several launches in an iteration, only equal distances end the search.
    Empty if all distances are too unequal, or too short for an iteration.
    """
    found, same = at[:0], 0.0
    for times in range(1, MOST_LAUNCHES_OF_ITERATION + 1):
        taken = at[::-times][::-1]
        if len(taken) < FEWEST_REPEATS or same >= SHORT_LOOP_SHARE:
            break
        distances = at[times:] - at[:-times]
        usual, share = float(np.median(distances)), _usual_share(distances)
        if share >= LEAST_USUAL_SHARE and usual >= least:
            own = float((distances == usual).mean())
            clearly = min(SHORT_LOOP_SHARE, CLEARLY_MORE * same)
            if not len(found) or own >= (STRICT_USUAL_SHARE if same < STRICT_USUAL_SHARE else clearly):
                found, same = taken, own
            if share >= SHORT_LOOP_SHARE and (times == 1 or usual >= SHORT_LOOP * least):
                break
        elif share >= SHORT_LOOP_SHARE:
            break
    return found


def _usual_share(distances: Indices) -> float:
    """Return the share of the distances that are usual."""
    usual = float(np.median(distances))
    return float((np.abs(distances - usual) <= DISTANCE_TOLERANCE * usual).mean())

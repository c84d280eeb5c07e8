"""Work of one report that repeats regularly on a process, and its steps: from one launch of it to the next.

`milestones.py` chooses among them the milestone by which the iterations of a run are told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.intervals.shortest import ends_of
from nsys2prv.intervals.spans import Times
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.iterations.milestone_kinds import (
    CALLS_OF_MPI,
    OF_MESSAGE,
    OF_MPI_COLLECTIVE,
    OF_OPTIMIZER,
    OF_ORDER,
)
from nsys2prv.run.iterations.repeats_by_kind import work_of_kinds
from nsys2prv.run.iterations.repeats_by_order import work_in_order

# Fewest device activities of an iteration that is found by order. Ranks wait for each other in each collective call, so
# that a loop of one is an iteration. A call that waits for messages has device work before it.
FEWEST_ROWS_BY_KERNEL, FEWEST_ROWS_BY_COLLECTIVE, FEWEST_ROWS_BY_MESSAGE = 10, 1, 2
# Share of a process' device activities that must lie between its first and its last milestone. Of the optimizer, of
# milestones by order and of calls those from the first milestone on count: before it a program may compile and try
# kernels.
LEAST_HELD_SHARE = 0.5
KINDS_AFTER_WARM_UP = (OF_OPTIMIZER, OF_ORDER, *CALLS_OF_MPI)

# Work of one name and size that repeats regularly on a process. `milestones`: how often; `period`: median time from one
# to the next on the device (ns); `activities`: device activities of the process for each milestone; `orderly`: share of
# usual distances in the order of launches, null for milestones that are not found by order. Kernels of an optimizer are
# one, under the name of the most frequent kernel.
REPEATING = {
    "process": pl.Int64(),
    "kind": pl.UInt8(),
    "name": pl.String(),
    "bytes": pl.Int64(),
    "milestones": pl.Int64(),
    "period": pl.Float64(),
    "activities": pl.Float64(),
    "orderly": pl.Float64(),
}
# From one milestone to the next, on the host: [start, end). `first`, `last`: begin of the first and end of the last
# device work that was launched in it; between calls of MPI `start` and `end`.
REPEATED_STEP = {
    "process": pl.Int64(),
    "kind": pl.UInt8(),
    "name": pl.String(),
    "bytes": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "first": pl.Int64(),
    "last": pl.Int64(),
}


class Repeating(NamedTuple):
    """Regularly repeating work: REPEATING, and REPEATED_STEP of each.

    `processes`: those that launched device work; `callers`: those with collective calls of MPI.
    """

    processes: tuple[int, ...]
    callers: tuple[int, ...]
    work: pl.DataFrame
    steps: pl.DataFrame


def repeating_work(work: pl.DataFrame) -> Repeating:
    """Find the work that repeats regularly on each process, in LAUNCHED_WORK."""
    found, steps = [pl.DataFrame(schema=REPEATING)], [pl.DataFrame(schema=REPEATED_STEP)]
    processes, callers = [], []
    for (process,), own in work.sort("launched", "start").group_by("process", maintain_order=True):
        number, of_mpi, of_message = int(str(process)), *(own["kind"].eq_missing(kind) for kind in CALLS_OF_MPI)
        device, with_calls, with_messages = (own.filter(~one) for one in (of_mpi | of_message, of_message, of_mpi))
        processes += [number] if device.height else []
        callers += [number] if of_mpi.any() else []
        of_device = (*work_of_kinds(device), *_by_order(device)) if device.height else ()
        of_calls, of_messages = _by_calls(with_calls), _by_messages(with_messages)
        for rows, milestones in ((device, of_device), (with_calls, of_calls), (with_messages, of_messages)):
            for milestone in milestones:
                if (held := _held(number, rows, *milestone)) is not None:
                    found.append(held[0])
                    steps.append(held[1])
    return Repeating(tuple(sorted(processes)), tuple(sorted(callers)), pl.concat(found), pl.concat(steps))


def _held(
    process: int, own: pl.DataFrame, key: Sequence[object], milestones: pl.DataFrame, orderly: float | None
) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    """Return REPEATING and REPEATED_STEP of milestones; None if too little of a process' work lies between them."""
    between, held = _between(milestones["launched"].to_numpy(), own, from_start=key[0] not in KINDS_AFTER_WARM_UP)
    if held < LEAST_HELD_SHARE:
        return None
    if key[0] in CALLS_OF_MPI:
        # A call may wait long for other ranks before any device work: all the time between calls counts.
        between = between.with_columns(first="start", last="end")
    named = {"process": process, **dict(zip(("kind", "name", "bytes"), key, strict=True))}
    keys = [pl.lit(value, REPEATING[c]).alias(c) for c, value in named.items()]
    period = float(np.median(np.diff(milestones["start"].to_numpy())))
    each = {"milestones": milestones.height, "period": period, "activities": own.height / milestones.height}
    row = pl.DataFrame({**each, "orderly": orderly}).with_columns(keys)
    repeating = to_schema(row, REPEATING)
    return repeating, between.with_columns(keys).select(*REPEATED_STEP)


def _by_order(own: pl.DataFrame) -> Iterator[tuple[Sequence[object], pl.DataFrame, float]]:
    """Yield kind, name and bytes of kernels at equal places in the order, their milestones, and `orderly`."""
    for name, rows, orderly in work_in_order(own, own["kind"].is_not_null().to_numpy(), FEWEST_ROWS_BY_KERNEL):
        yield (OF_ORDER, name, None), own[rows], orderly


def _by_calls(own: pl.DataFrame) -> Iterator[tuple[Sequence[object], pl.DataFrame, float]]:
    """Yield kind, name and bytes of collective calls of MPI at equal places, their milestones, and `orderly`."""
    collective = own["kind"].eq_missing(OF_MPI_COLLECTIVE).to_numpy()
    for name, rows, orderly in work_in_order(own, collective, FEWEST_ROWS_BY_COLLECTIVE):
        yield (OF_MPI_COLLECTIVE, name, None), own[rows], orderly


def _by_messages(own: pl.DataFrame) -> Iterator[tuple[Sequence[object], pl.DataFrame, float]]:
    """Yield kind, name and bytes of calls that wait for messages after device work, their milestones, and `orderly`.

    Of several such calls in a row the first counts.
    """
    waits = own["kind"].eq_missing(OF_MESSAGE)
    first = waits & ~waits.shift(1, fill_value=False)
    for name, rows, orderly in work_in_order(own, first.to_numpy(), FEWEST_ROWS_BY_MESSAGE):
        yield (OF_MESSAGE, name, None), own[rows], orderly


def _between(milestones: Times, own: pl.DataFrame, from_start: bool) -> tuple[pl.DataFrame, float]:
    """Return start, end, first, last from each milestone's launch (ns) to the next, and the share of the work in them.

    Not `from_start`: of the work from the first milestone on.
    """
    launched, start = own["launched"].to_numpy(), own["start"].to_numpy()
    end = ends_of(start, own["end"].to_numpy())
    at = np.searchsorted(launched, milestones, side="left")
    inside = slice(0, int(at[-1]))
    steps: Mapping[str, Times] = {
        "start": milestones[:-1],
        "end": milestones[1:],
        "first": np.minimum.reduceat(start[inside], at[:-1]),
        "last": np.maximum.reduceat(end[inside], at[:-1]),
    }
    return pl.DataFrame(steps), float(at[-1] - at[0]) / (len(launched) - (0 if from_start else int(at[0])))

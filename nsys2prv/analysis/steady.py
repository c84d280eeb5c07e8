"""The steady part of a run: the iterations that every rank recorded whole, without start-up.

Figures over all the time of a run mislead: the first iterations compile, allocate and tune, and ranks begin to record
at different times, so that those which began early wait for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import Run, one_span
from nsys2prv.intervals.intervals import Spans, Times, union

# Fewer iterations than this cannot tell start-up from what is usual: all of them count.
ENOUGH = 4
# Leading iterations are start-up while each is longer than the usual one by half of it, and by so many times the usual
# spread. Compilation and allocation cost far more than that; iterations of a run differ by far less.
LONGER, SPREADS = 0.5, 5.0
# Leading iterations are start-up, too, before a pause that is longer than a usual iteration and so many times the usual
# pause: warm-up comes before the measured part.
PAUSES = 5.0
# From the median absolute deviation to the standard deviation of a normal distribution.
MAD_TO_SIGMA = 1.4826

# An iteration over all ranks. `start` and `end`: from its first to its last device activity on any rank, or from the
# first begin to the last end of its ranges where it has none.
EXTENT = {
    "repeat": pl.Int64(),
    "number": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "tasks": pl.List(pl.Int64()),
    "open": pl.List(pl.Int64()),
}


class LeftOut(NamedTuple):
    """An iteration that is not of the steady part, the ranks that are the reason, and the reason as a phrase."""

    iteration: int
    repeat: int
    ranks: tuple[int, ...]
    why: str


class Window(NamedTuple):
    """The time that figures are of: disjoint spans (ns of the trace).

    `iterations`: those of the steady part, as (number, repeat); `left_out`: the others, each with its reason.
    """

    name: str
    spans: Spans
    iterations: tuple[tuple[int, int], ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def start(self) -> int:
        """Begin of the first span (ns)."""
        return int(self.spans.start[0]) if len(self.spans.start) else 0

    @property
    def end(self) -> int:
        """End of the last span (ns)."""
        return int(self.spans.end[-1]) if len(self.spans.end) else 0


def recorded(run: Run) -> dict[int, tuple[int, int]]:
    """Return the first and the last instant (ns) that each task of a run recorded anything."""
    parts = [f.select("task", "start", "end") for f in (run.work, run.calls, run.ranges)]
    times = pl.concat(parts).group_by("task").agg(pl.col("start").min(), pl.col("end").max())
    return {int(task): (int(start), int(end)) for task, start, end in times.rows()}


def extents(found: pl.DataFrame, launched: pl.DataFrame, last: Mapping[int, int], nested: pl.DataFrame) -> pl.DataFrame:
    """Return EXTENT of each iteration, in order of time.

    `found`: OCCURRENCE of the iterations; `launched`: the work of each (see `phases.projected`); `last`: when each task
    recorded its last event; `nested`: all ranges of the tasks' main threads.
    """
    key = ["repeat", "number"]
    work = launched.group_by(key).agg(first=pl.col("start").min(), last=pl.col("end").max())
    ends = pl.col("task").replace_strict(dict(last), default=None, return_dtype=pl.Int64)
    # A range that is open when recording stops is drawn to the last event, and so are those around it.
    together = nested.group_by("task", "end").agg(inside=pl.len())
    cut = found.filter(pl.col("end") >= ends).join(together, on=["task", "end"]).filter(pl.col("inside") > 1)
    still_open = cut.group_by(key).agg(open=pl.col("task").unique().sort())
    host = found.group_by(key).agg(
        begun=pl.col("start").min(), ended=pl.col("end").max(), tasks=pl.col("task").unique().sort()
    )
    joined = host.join(work, on=key, how="left").join(still_open, on=key, how="left")
    return joined.select(
        *key,
        start=pl.coalesce("first", "begun"),
        end=pl.coalesce("last", "ended"),
        tasks=pl.col("tasks"),
        open=pl.col("open").fill_null(pl.lit([], pl.List(pl.Int64()))),
    ).sort("start", "end", *key)


def steady_part(run: Run, found: pl.DataFrame, launched: pl.DataFrame, nested: pl.DataFrame) -> Window:
    """Return the steady part of a run; without iterations the time in which all ranks recorded.

    The arguments are those of `extents`.
    """
    times = recorded(run)
    table = extents(found, launched, {task: end for task, (_, end) in times.items()}, nested)
    left = dict(_not_whole(run, table, times))
    whole = table.filter(pl.Series([n not in left for n in range(table.height)], dtype=pl.Boolean))
    startup = startup_length(whole["start"].to_numpy(), whole["end"].to_numpy())
    names = list(zip(table["number"].to_list(), table["repeat"].to_list(), strict=True))
    kept = [n for n in range(table.height) if n not in left]
    left |= dict.fromkeys(kept[:startup], ((), "start-up"))
    kept = kept[startup:]
    left_out = tuple(LeftOut(*names[n], *left[n]) for n in sorted(left))
    if not kept:
        return Window("steady", all_recorded(run, times), (), left_out)
    chosen = table[kept]
    spans = union(chosen["start"].to_numpy(), chosen["end"].to_numpy())
    return Window("steady", spans, tuple(names[n] for n in kept), left_out)


def all_recorded(run: Run, times: Mapping[int, tuple[int, int]]) -> Spans:
    """Return the time in which all ranks recorded, within the device activity of the run."""
    active = [times[task] for task in sorted(set(run.work["task"].to_list()) or times)]
    low, high = run.window
    start, end = max([low, *(a for a, _ in active)]), min([high, *(b for _, b in active)])
    # Ranks that never recorded at the same time have no time in common: all of it is shown.
    return one_span(start, end) if start < end else one_span(low, high)


def _not_whole(
    run: Run, table: pl.DataFrame, times: Mapping[int, tuple[int, int]]
) -> Iterator[tuple[int, tuple[tuple[int, ...], str]]]:
    """Yield row, ranks and reason of the iterations that some rank did not record whole."""
    having = set(table["tasks"].explode().drop_nulls().to_list())
    for n, (start, tasks, still_open) in enumerate(table.select("start", "tasks", "open").rows()):
        late = sorted(t for t in having if times[t][0] > start)
        lacking = sorted(having - set(tasks))
        if late:
            yield n, _late(run, having, late, times)
        elif still_open:
            yield n, (_ranks(run, still_open), f"{_named(run, still_open)} stopped recording in it")
        elif lacking:
            yield n, (_ranks(run, lacking), f"{_named(run, lacking)} did not record it")


def _late(
    run: Run, having: set[int], late: Sequence[int], times: Mapping[int, tuple[int, int]]
) -> tuple[tuple[int, ...], str]:
    """Name the ranks that began to record at another time than the others: the smaller part of them."""
    early = sorted(having - set(late))
    few, others, word = (late, early, "after") if len(late) <= len(early) else (early, late, "before")
    if not few or not others:
        return _ranks(run, late), f"{_named(run, late)} began to record later"
    begins = [float(np.median([times[t][0] for t in part])) for part in (few, others)]
    them = _named(run, others) if len(having) == 2 else "the others"
    return _ranks(
        run, few
    ), f"{_named(run, few)} began to record {abs(begins[0] - begins[1]) / 1e6:.0f} ms {word} {them}"


def startup_length(start: Times, end: Times) -> int:
    """Return how many leading iterations are start-up, by their lengths and by the pauses between them (ns).

    The usual length is the median of the later half, which no start-up moves; the spread is its median absolute
    deviation (Rousseeuw and Croux, J. Am. Stat. Assoc. 88, 1993).
    """
    count = len(start)
    if count < ENOUGH:
        return 0
    lengths = (end - start).astype(np.float64)
    later = lengths[count // 2 :]
    usual = float(np.median(later))
    spread = MAD_TO_SIGMA * float(np.median(np.abs(later - usual)))
    limit = usual + max(LONGER * usual, SPREADS * spread)
    most = count // 2
    longer = lengths[:most] > limit
    leading = int(np.argmin(longer)) if not longer.all() else most
    pauses = np.maximum(start[1:] - end[:-1], 0).astype(np.float64)
    long_pause = (pauses > usual) & (pauses > PAUSES * float(np.median(pauses)))
    before = np.flatnonzero(long_pause[:most])
    return max(leading, int(before[-1]) + 1 if len(before) else 0)


def _ranks(run: Run, tasks: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(run.rank(t) for t in tasks))


def _named(run: Run, tasks: Sequence[int]) -> str:
    ranks = _ranks(run, tasks)
    shown = ", ".join(map(str, ranks[:4])) + (f" and {len(ranks) - 4} more" if len(ranks) > 4 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"

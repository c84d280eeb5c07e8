"""The steady part of a run: the iterations that every rank recorded whole, without start-up.

Figures over all the time of a run mislead: the first iterations compile, allocate and tune, and ranks begin to record
at different times, so that early ones wait for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.intervals.spans import Span, Spans, Times, intersection, one_span, union
from nsys2prv.model.words import few_ranks

# With fewer iterations start-up cannot be distinguished from usual iterations: all of them count.
FEWEST_TO_JUDGE = 4
# Leading iterations are start-up while each is longer than the usual one by half of it, and by so many times the usual
# spread. Compilation and allocation cost far more than that; iterations of a run differ by far less. They are none
# where iterations about as long come again and again, FEWEST_PERIODIC times at equal distances: the loop does that.
STARTUP_SHARE, STARTUP_SPREADS = 0.5, 5.0
# Leading iterations are start-up, too, before a pause that is longer than a usual iteration and so many times the usual
# pause: warm-up comes before the measured part. With FEWEST_RECURRING_PAUSES such pauses or more none
# ends the warm-up: a program may write files every few iterations.
LEAST_PAUSE_RATIO, FEWEST_RECURRING_PAUSES = 5.0, 3
# An iteration is interrupted if it takes so many times as long as the usual one, and few others do (share of all): the
# program was compiled again, evaluated or saved, or the system stood still. Means would be of such an iteration alone.
# FEWEST_PERIODIC of them or more at equal distances are no interruptions, but what the program does every so many
# iterations, such as to write its results. It may take most of its time.
LEAST_INTERRUPTED_RATIO, MOST_INTERRUPTED_SHARE, FEWEST_PERIODIC = 20.0, 0.1, 3
# From the median absolute deviation to the standard deviation of a normal distribution.
MAD_TO_SIGMA = 1.4826

# One task's part of an iteration. `start` and `end`: its range on the host; `first` and `last`: begin of the first and
# end of the last device activity that was launched in it (null: none); `open`: recording stopped within it.
ITERATION_PART = {
    "task": pl.Int64(),
    "repeat": pl.Int64(),
    "number": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "first": pl.Int64(),
    "last": pl.Int64(),
    "open": pl.Boolean(),
}


# Windows that are no NVTX range: whole iterations, from the first to the last device activity, all of the trace.
STEADY, DEVICE, TRACE = "steady", "device", "trace"
BUILT_IN_WINDOWS = (STEADY, DEVICE, TRACE)


class ExcludedIteration(NamedTuple):
    """An iteration outside the steady part, the ranks that cause this, and the reason as a phrase.

    `late`: the reason is that ranks did not begin to record together.
    """

    iteration: int
    repeat: int
    ranks: tuple[int, ...]
    why: str
    late: bool = False


# Ranks, reason and `late` of an excluded iteration.
_Reason = tuple[tuple[int, ...], str, bool]
# Begin of the reason of an interrupted iteration.
INTERRUPTED = "interrupted"
CUT: _Reason = ((), "the chosen time cuts it", False)


class Window(NamedTuple):
    """The time that figures cover: disjoint spans (ns of the trace).

    `iterations`: those of the steady part, as (number, repeat); `left_out`: the others, each with its reason.
    """

    name: str
    spans: Spans
    iterations: tuple[tuple[int, int], ...] = ()
    left_out: tuple[ExcludedIteration, ...] = ()

    @property
    def start(self) -> int:
        """Return the begin of the first span (ns of the trace); 0 without spans."""
        return int(self.spans.start[0]) if len(self.spans.start) else 0

    @property
    def end(self) -> int:
        """Return the end of the last span (ns of the trace); 0 without spans."""
        return int(self.spans.end[-1]) if len(self.spans.end) else 0

    @property
    def of_all_device_work(self) -> bool:
        """Return True for a window of device work without iterations: what hosts did before it belongs to it, too."""
        return self.name == DEVICE or (self.name == STEADY and not self.iterations)


def steady_window(
    parts: pl.DataFrame,
    recorded: Mapping[int, tuple[int, int]],
    ranks: Mapping[int, int],
    otherwise: Spans,
    cut: pl.DataFrame | None = None,
) -> Window:
    """Return the steady part of a run.

    `parts`: ITERATION_PART; `recorded`: the first and the last instant (ns) that each task recorded anything; `ranks`:
    rank of each task; `otherwise`: the spans where no iteration is left; `cut`: repeat and number of the iterations
    that the chosen time cuts, None where it is all of the run.
    """
    key = ["repeat", "number"]
    table = (
        parts.group_by(key)
        .agg(
            start=pl.coalesce(pl.col("first").min(), pl.col("start").min()),
            end=pl.coalesce(pl.col("last").max(), pl.col("end").max()),
            tasks=pl.col("task").unique().sort(),
            open=pl.col("task").filter("open").unique().sort(),
        )
        .sort("start", "end", *key)
        .with_row_index("n")
    )
    in_time = table if cut is None else table.join(cut, on=key, how="anti", maintain_order="left")
    left = dict(_not_whole(in_time, recorded, ranks))
    # Of a chosen part, nothing tells a rank that began to record late from one that did nothing at its begin.
    if cut is not None and (first := next(iter(in_time["n"]), None)) in left and left[first][-1]:
        left[first] = ((), "the chosen part may begin within it", False)
    left |= dict.fromkeys(set(table["n"]).difference(in_time["n"]), CUT)
    kept = [n for n in range(table.height) if n not in left]
    whole = table[kept]
    startup = startup_length(whole["start"].to_numpy(), whole["end"].to_numpy())
    left |= dict.fromkeys(kept[:startup], ((), "start-up", False))
    kept = kept[startup:]
    interrupted = _interrupted(table, kept)
    left |= interrupted
    kept = [n for n in kept if n not in interrupted]
    names = list(zip(table["number"].to_list(), table["repeat"].to_list(), strict=True))
    left_out = tuple(ExcludedIteration(*names[n], who, why, late) for n, (who, why, late) in sorted(left.items()))
    if not kept:
        return Window(STEADY, otherwise, (), left_out)
    spans = union(table[kept]["start"].to_numpy(), table[kept]["end"].to_numpy())
    return Window(STEADY, spans, tuple(names[n] for n in kept), left_out)


def all_recorded(recorded: Iterable[tuple[int, int]], active: Span, captures: Sequence[Spans] = ()) -> Spans:
    """Return the time in which all tasks recorded, within the device activity of the run, `active`.

    `captures`: of each task that was recorded in pieces, when it was. If there is no time in which all tasks recorded,
    this is all of `active`.
    """
    times = list(recorded)
    low, high = active
    start, end = max([low, *(a for a, _ in times)]), min([high, *(b for _, b in times)])
    if start >= end:
        return one_span(low, high)
    together = one_span(start, end)
    for spans in captures:
        together = intersection(together, spans)
    return together if together.total() > 0 else one_span(low, high)


def begun_apart(
    having: set[int], late: Sequence[int], times: Mapping[int, tuple[int, int]], ranks: Mapping[int, int]
) -> tuple[tuple[int, ...], str]:
    """Return the smaller group of ranks that began to record earlier or later than the others, and a phrase on them.

    `having`: all tasks; `late`: those that began to record later; `times`, `ranks`: as for `steady_window`.
    """
    early = sorted(having - set(late))
    few, others, word = (late, early, "after") if len(late) <= len(early) else (early, late, "before")
    if not few or not others:
        return _ranks(late, ranks), f"{_named(late, ranks)} began to record later"
    begins = [float(np.median([times[t][0] for t in part])) for part in (few, others)]
    them = _named(others, ranks) if len(having) == 2 else "the others"
    apart = abs(begins[0] - begins[1]) / 1e6
    return _ranks(few, ranks), f"{_named(few, ranks)} began to record {apart:.0f} ms {word} {them}"


def _not_whole(
    table: pl.DataFrame, times: Mapping[int, tuple[int, int]], ranks: Mapping[int, int]
) -> Iterator[tuple[int, _Reason]]:
    """Yield the row of each iteration that some rank did not record whole, and its reason."""
    having = set(table["tasks"].explode().drop_nulls().to_list())
    # Of a translation `times` lacks tasks with rows of GPUs alone: these are never late.
    timed = having & times.keys()
    last_begin = max((times[t][0] for t in timed), default=None)
    whole = (pl.col("tasks").list.len() == len(having)) & (pl.col("open").list.len() == 0)
    early = pl.lit(False) if last_begin is None else pl.col("start") < last_begin
    parted = table.select("n", "start", "tasks", "open").filter(early | ~whole)
    for n, start, tasks, still_open in parted.rows():
        late = [t for t in timed if times[t][0] > start]
        if late:
            yield n, (*begun_apart(timed, late, times, ranks), True)
        elif still_open:
            yield n, (_ranks(still_open, ranks), f"{_named(still_open, ranks)} stopped recording in it", False)
        else:
            lacking = having.difference(tasks)
            yield n, (_ranks(lacking, ranks), f"not recorded on {_named(lacking, ranks)}", False)


def _interrupted(table: pl.DataFrame, kept: Sequence[int]) -> dict[int, _Reason]:
    """Return the rows of the kept iterations that are interrupted, and the reason."""
    lengths = (table["end"] - table["start"]).to_numpy()[kept]
    usual = float(np.median(lengths)) if len(kept) else 0.0
    longer: list[int] = np.flatnonzero(lengths >= LEAST_INTERRUPTED_RATIO * usual).tolist()
    many = len(longer) > max(MOST_INTERRUPTED_SHARE * len(kept), 1)
    if not longer or not usual or len(kept) < FEWEST_TO_JUDGE or many:
        return {}
    apart = np.unique(np.diff(longer))
    if len(longer) >= FEWEST_PERIODIC and len(apart) == 1 and apart[0] > 1:
        return {}
    least, most = (float(end(lengths[longer])) / 1e6 for end in (np.min, np.max))
    times = f"{least:,.0f} to {most:,.0f} ms" if len(longer) > 1 else f"{most:,.0f} ms"
    usual_ms = f"{usual / 1e6:.3g}"
    return dict.fromkeys([kept[n] for n in longer], ((), f"{INTERRUPTED}, {times} long instead of {usual_ms}", False))


def startup_length(start: Times, end: Times) -> int:
    """Count the leading iterations that are start-up, by their lengths and the pauses between them (ns).

    The usual length is the median of the later half, which no start-up moves; the spread is its median absolute
    deviation (Rousseeuw and Croux, J. Am. Stat. Assoc. 88, 1993).
    """
    count = len(start)
    if count < FEWEST_TO_JUDGE:
        return 0
    lengths = (end - start).astype(np.float64)
    later = lengths[count // 2 :]
    usual = float(np.median(later))
    spread = MAD_TO_SIGMA * float(np.median(np.abs(later - usual)))
    limit = usual + max(STARTUP_SHARE * usual, STARTUP_SPREADS * spread)
    most = count // 2
    longer = lengths > limit
    leading = int(np.argmin(longer[:most])) if not longer[:most].all() else most
    if _recurs(lengths, longer, leading):
        leading = 0
    pauses = np.maximum(start[1:] - end[:-1], 0).astype(np.float64)
    long_pause = (pauses > usual) & (pauses > LEAST_PAUSE_RATIO * float(np.median(pauses)))
    before = np.flatnonzero(long_pause[:most])
    warms_up = len(before) > 0 and long_pause.sum() < FEWEST_RECURRING_PAUSES
    return max(leading, int(before[-1]) + 1 if warms_up else 0)


def _recurs(lengths: npt.NDArray[np.float64], longer: npt.NDArray[np.bool_], leading: int) -> bool:
    """Return True if the leading iterations are part of a pattern that goes on to the end.

    `longer`: which iterations are longer than usual. If the first of them are much longer than those that follow in
    their places, the program starts up in them as well.
    """
    period = leading + int(np.argmax(longer[leading:]))
    if not leading or not longer[period] or len(longer) <= (FEWEST_PERIODIC - 1) * period:
        return False
    others = float(np.median(lengths[period:][longer[period:]]))
    alike = lengths[:leading].max() <= (1 + STARTUP_SHARE) * others
    return bool(alike and (longer[period:] == longer[:-period]).all())


def _ranks(tasks: Iterable[int], ranks: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(sorted(ranks[t] for t in tasks))


def _named(tasks: Iterable[int], ranks: Mapping[int, int]) -> str:
    return few_ranks(_ranks(tasks, ranks))

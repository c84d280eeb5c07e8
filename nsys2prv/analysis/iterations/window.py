"""The window of an analysis: the spans of time that its figures cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from nsys2prv.analysis.frames import CUT_RANGE, LAUNCHED, Run
from nsys2prv.analysis.iterations.phases import projected
from nsys2prv.intervals.spans import Span
from nsys2prv.run.iterations.steady import ITERATION_PART, STEADY, Window, all_recorded, steady_window


def first_and_last(run: Run) -> dict[int, tuple[int, int]]:
    """Return the first and the last instant (ns) of each task in the frames, of a chosen part if there is one."""
    parts = [f.select("task", "start", "end") for f in (run.work, run.calls, run.ranges)]
    times = pl.concat(parts).group_by("task").agg(pl.col("start").min(), pl.col("end").max())
    return {int(task): (int(start), int(end)) for task, start, end in times.rows()}


def recordings(run: Run) -> Mapping[int, Span]:
    """Return from when to when (ns) each task was recorded in all of the run, also where a part of it was chosen.

    That is from its first to its last event. The times are empty where the chosen part alone is known: there, nothing
    tells a rank that did nothing from one that did not record.
    """
    if run.recorded or run.chosen:
        return run.recorded
    return {task: Span(*times) for task, times in first_and_last(run).items()}


def steady(run: Run, main: pl.DataFrame, steps: pl.DataFrame, launched: pl.DataFrame) -> Window:
    """Return the steady part of a run; without iterations the time in which all ranks recorded.

    `main`: all ranges of the tasks' main threads; `steps`: OCCURRENCE of the iterations; `launched`: the work of each
    (see `phases.projected`).
    """
    times = first_and_last(run)
    # The end of a chosen time is no end of the recording.
    border = run.chosen[1] if run.chosen and run.chosen[1] < run.duration else None
    ends = {task: end for task, (_, end) in times.items() if end != border}
    parts = iteration_parts(main, steps, launched, ends)
    working = set(run.work["task"].to_list()) or times.keys()
    otherwise = all_recorded([times[task] for task in sorted(working)], run.active, run.captures)
    return steady_window(parts, times, run.ranks, otherwise, _cut_iterations(run, steps))


def _cut_iterations(run: Run, steps: pl.DataFrame) -> pl.DataFrame | None:
    """Return repeat and number of the iterations (OCCURRENCE) that the chosen time cuts, None where it is all the run.

    An iteration is cut if its range, or work that was launched in it, crosses a border of the chosen time, or if such
    work begins behind that time.
    """
    if run.chosen is None:
        return None
    cut = pl.col("whole_ns") > pl.col("end") - pl.col("start")
    launched = pl.concat([run.work.filter(cut).select(*LAUNCHED), run.launched_beyond])
    of_range = steps.join(run.cut_ranges, on=list(CUT_RANGE), how="semi")
    return pl.concat([one.select("repeat", "number") for one in (projected(launched, steps), of_range)]).unique()


def iterations_frame(iterations: Sequence[tuple[int, int]]) -> pl.DataFrame:
    """Return iterations, each given as (number, repeat), with columns of these names."""
    return pl.DataFrame(list(iterations), schema={"number": pl.Int64(), "repeat": pl.Int64()}, orient="row")


def iteration_parts(
    main: pl.DataFrame, steps: pl.DataFrame, launched: pl.DataFrame, last: dict[int, int]
) -> pl.DataFrame:
    """Return ITERATION_PART. `last`: when each task recorded its last event (ns); the others as for `steady`."""
    key = ["task", "repeat", "number"]
    work = launched.group_by(key).agg(first=pl.col("start").min(), last=pl.col("end").max())
    # Ranges that are open when recording stops are drawn to the last event. So an iteration that ends there with other
    # ranges was open, while one that ends there alone may have ended by itself.
    ends = pl.col("task").replace_strict(last, default=None, return_dtype=pl.Int64)
    # Of millions of ranges few end so late.
    lasting = main.select("task", "end").filter(pl.col("end") >= ends)
    together = lasting.group_by("task", "end").agg(ranges=pl.len())
    joined = steps.join(work, on=key, how="left").join(together, on=["task", "end"], how="left")
    return joined.with_columns(open=(pl.col("ranges") > 1).fill_null(False)).select(*ITERATION_PART)


def kept_steps(steps: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Return OCCURRENCE of the steady iterations; for another window, of all iterations. `steps`: of all."""
    if window.name != STEADY:
        return steps
    return steps.join(iterations_frame(window.iterations), on=["number", "repeat"], how="semi", maintain_order="left")


def iterations_in_ranges(steps: pl.DataFrame, ranges: pl.DataFrame) -> tuple[tuple[int, int], ...]:
    """Return the iterations that some ranges are about, as (number, repeat), in order of time.

    On a task that has both, the middle of such an iteration is in a range, or the middle of a range in the iteration.
    `steps`, `ranges`: OCCURRENCE of all iterations, and of the ranges.
    """
    key, middle = ["number", "repeat"], (pl.col("start") + pl.col("end")) // 2
    held = projected(steps.select("task", "start", "end", launched=middle, of=pl.struct(key)), ranges)
    holding = projected(ranges.select("task", launched=middle), steps)
    found = pl.concat([held.select(pl.col("of").struct.unnest()), holding.select(key)])
    each = steps.join(found.unique(), on=key, how="semi").group_by(key).agg(pl.col("start").min())
    return tuple(each.sort("start", *key).select(key).rows())


def iterations_over_ranges(steps: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """Return number and repeat of the iterations from the first to the last that some ranges are about.

    The window of ranges covers what is between them, too. The parameters are those of `iterations_in_ranges`.
    """
    key = ["number", "repeat"]
    about = iterations_frame(iterations_in_ranges(steps, ranges))
    begins = steps.group_by(key).agg(pl.col("start").min())
    own = begins.join(about, on=key, how="semi")["start"]
    return begins.filter(pl.col("start").is_between(own.min(), own.max())).select(key)

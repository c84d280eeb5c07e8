"""NVTX ranges on the device, by process: what any thread of it launched while a range was open on its main one.

Frameworks launch from several threads (PyTorch: backward kernels from one of their own), and a range is pushed on one
of them. NVIDIA's projection goes by thread; there `backward` of the data parallel GPT run is 1 kernel of 242.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import Run, parts_by
from nsys2prv.families.nvtx.range_patterns import DIGITS, LIBRARY_DOMAINS, number_of, pattern_of, value_of
from nsys2prv.intervals.spans import Spans, union

# Occurrences of a phase: the k-th of one task belongs with the k-th of the others, or the range's own number does, and
# `repeat`: how often that number came before on the task.
OCCURRENCE = {
    "task": pl.Int64(),
    "number": pl.Int64(),
    "repeat": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "text": pl.String(),
}


def main_ranges(run: Run) -> pl.DataFrame:
    """RANGES of each task's main NVTX thread: the one whose ranges, libraries' aside, last longest together."""
    own = run.ranges.filter(~pl.col("domain").is_in(LIBRARY_DOMAINS))
    lasting = own.group_by("task", "row").agg(total=(pl.col("end") - pl.col("start")).sum())
    main = lasting.sort("task", "total", "row", descending=[False, True, False]).unique("task", keep="first")
    return own.join(main.select("task", "row"), on=["task", "row"], how="semi", maintain_order="left")


def occurrences(ranges: pl.DataFrame, pattern: str) -> pl.DataFrame:
    """OCCURRENCE of the ranges (of `main_ranges`) whose whole text the pattern matches, outermost ones only.

    In the pattern `#` stands for a number or for itself, and the last number numbers the occurrence; without one they
    count from 0.
    """
    *before, after = (re.escape(part) for part in pattern.split("#"))
    last = f"(?:({DIGITS})|#)" if before else "()"
    regex = f"^{f'(?:{DIGITS}|#)'.join(before)}{last}{after}$"
    found = ranges.filter(pl.col("text").str.contains(regex)).sort(
        "task", "start", pl.col("end"), descending=[False, False, True]
    )
    reach = pl.col("end").cum_max().shift(1).over("task")
    outer = found.filter(reach.is_null() | (pl.col("start") >= reach))
    numbered = value_of(pl.col("text").str.extract(regex, 1)), pl.int_range(pl.len()).over("task")
    repeat = pl.int_range(pl.len()).over("task", "number")
    return outer.with_columns(number=pl.coalesce(numbered)).with_columns(repeat=repeat).select(*OCCURRENCE)


def named(pattern: str, number: int, repeat: int) -> str:
    """What an occurrence of a pattern is called: `step 3`, `step 3 (repeat 1)`."""
    name = str(number).join(pattern.rsplit("#", 1)) if "#" in pattern else f"{pattern} {number}"
    return f"{name} (repeat {repeat})" if repeat else name


def projected(work: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """WORK that was launched within an occurrence of its task, with that one's `number` and `repeat`.

    Work of unknown launch is none's.
    """
    parts = [work.clear().with_columns(number=pl.lit(None, pl.Int64), repeat=pl.lit(None, pl.Int64))]
    by_task = parts_by(work.drop_nulls("launched"), "task")
    for task, ranges in parts_by(found, "task").items():
        if task not in by_task:
            continue
        own = by_task[task]
        launched = own["launched"].to_numpy()
        index = np.searchsorted(ranges["start"].to_numpy(), launched, side="right") - 1
        last = ranges.select("number", "repeat", "end")[np.maximum(index, 0)]
        within = (index >= 0) & (launched < last["end"].to_numpy())
        parts.append(own.with_columns(last["number"], last["repeat"]).filter(pl.Series(within)))
    return pl.concat(parts)


def by_occurrence(launched: pl.DataFrame) -> dict[tuple[int, int], pl.DataFrame]:
    """The rows of a frame of `projected` by (repeat, number), in order of it: a number comes again after the others."""
    parts = launched.partition_by("repeat", "number", as_dict=True, maintain_order=True)
    return {(int(repeat), int(number)): part for (repeat, number), part in sorted(parts.items())}


def phase_window(work: pl.DataFrame) -> Spans:
    """The time of a phase: of each occurrence from first to last device activity over all ranks, together."""
    spans = work.group_by("number", "repeat").agg(pl.col("start").min(), pl.col("end").max())
    return union(spans["start"].to_numpy(), spans["end"].to_numpy())


def find_iterations(ranges: pl.DataFrame) -> str | None:
    """Pattern of the ranges that number the run's iterations (`step #`): of those whose texts come once a task, the
    ones that last longest together; None when no ranges are numbered so."""
    numbered = ranges.with_columns(pattern=pattern_of(pl.col("text")), number=number_of(pl.col("text"))).drop_nulls(
        "number"
    )
    counted = numbered.group_by("pattern").agg(
        total=(pl.col("end") - pl.col("start")).sum(),
        texts=pl.struct("task", "text").n_unique(),
        numbers=pl.col("number").n_unique(),
        rows=pl.len(),
    )
    once = counted.filter((pl.col("texts") == pl.col("rows")) & (pl.col("numbers") > 1))
    ordered = once.sort("total", "pattern", descending=[True, False])
    return str(ordered["pattern"][0]) if ordered.height else None

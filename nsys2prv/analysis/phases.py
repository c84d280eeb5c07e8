"""NVTX ranges on the device, by process: what any thread of it launched while a range was open on its main one.

Frameworks launch from several threads (PyTorch: backward kernels from one of their own), and a range is pushed on one
of them. NVIDIA's projection goes by thread; there `backward` of the data parallel GPT run is 1 kernel of 242.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import Run, parts_by
from nsys2prv.timeline.intervals import Spans, union

LIBRARY_DOMAINS = ("NCCL", "CCCL", "cuBLAS", "cuDNN", "MPI")
NUMBER = r"^(.*?)(\d+)(\D*)$"

# Occurrences of a phase: the k-th of one task belongs with the k-th of the others (or the range's own number).
OCCURRENCE = {
    "task": pl.Int64(),
    "number": pl.Int64(),
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

    In the pattern `#` stands for a number, and the last one numbers the occurrence; without one they count from 0.
    """
    regex = "^" + r"\d+".join(re.escape(part) for part in pattern.split("#")) + "$"
    found = ranges.filter(pl.col("text").str.contains(regex)).sort(
        "task", "start", pl.col("end"), descending=[False, False, True]
    )
    reach = pl.col("end").cum_max().shift(1).over("task")
    outer = found.filter(reach.is_null() | (pl.col("start") >= reach))
    count = pl.int_range(pl.len()).over("task")
    number = pl.col("text").str.extract(NUMBER, 2).cast(pl.Int64, strict=False) if "#" in pattern else count
    return outer.select("task", number.alias("number"), "start", "end", "text")


def projected(work: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """WORK that was launched within an occurrence of its task, with its `number`. Work of unknown launch is none's."""
    parts = [work.clear().with_columns(number=pl.lit(None, pl.Int64))]
    by_task = parts_by(work.drop_nulls("launched"), "task")
    for task, ranges in parts_by(found, "task").items():
        if task not in by_task:
            continue
        own = by_task[task]
        launched = own["launched"].to_numpy()
        index = np.searchsorted(ranges["start"].to_numpy(), launched, side="right") - 1
        within = (index >= 0) & (launched < ranges["end"].to_numpy()[np.maximum(index, 0)])
        numbers = pl.Series(ranges["number"].to_numpy()[np.maximum(index, 0)], dtype=pl.Int64)
        parts.append(own.with_columns(number=numbers).filter(pl.Series(within)))
    return pl.concat(parts)


def phase_window(work: pl.DataFrame) -> Spans:
    """The time of a phase: of each occurrence from first to last device activity over all ranks, together."""
    spans = work.group_by("number").agg(pl.col("start").min(), pl.col("end").max())
    return union(spans["start"].to_numpy(), spans["end"].to_numpy())


def find_iterations(ranges: pl.DataFrame) -> str | None:
    """Pattern of the ranges that number the run's iterations (`step #`): of those whose texts come once a task, the
    ones that last longest together; None when no ranges are numbered so."""
    numbered = ranges.with_columns(
        pattern=pl.col("text").str.replace(NUMBER, "${1}#${3}"), number=pl.col("text").str.extract(NUMBER, 2)
    ).drop_nulls("number")
    counted = numbered.group_by("pattern").agg(
        total=(pl.col("end") - pl.col("start")).sum(),
        texts=pl.struct("task", "text").n_unique(),
        numbers=pl.col("number").n_unique(),
        rows=pl.len(),
    )
    once = counted.filter((pl.col("texts") == pl.col("rows")) & (pl.col("numbers") > 1))
    ordered = once.sort("total", "pattern", descending=[True, False])
    return str(ordered["pattern"][0]) if ordered.height else None

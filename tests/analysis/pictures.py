"""Runs that are drawn as text."""

from __future__ import annotations

import polars as pl
from analysis_cases import run_of

from nsys2prv.analysis.frames import PART, WORK, Run
from nsys2prv.intervals.spans import Span

US = 1000


def drawn(picture: str) -> Run:
    """Return a run of a line a rank: `0| k @0 10-30, n @1 35-60` (us). k computes, n is a part of an AllReduce.

    Each activity is launched by the rank's thread at the time after `@`. `n3`: part of operation 3; else they count.
    `N`: a part on a stream of its own.
    """
    work, parts = [], []
    for line in picture.strip().splitlines():
        rank, activities = int(line.split("|")[0]), line.split("|")[1]
        number = 0
        for activity in activities.split(","):
            kind, called, span = activity.split()
            start, end = (int(t) * US for t in span.split("-"))
            name, launched = ("nccl", "kernel")[kind == "k"], int(called.removeprefix("@")) * US
            row = 8 + rank if kind[0] == "N" else 2 * rank
            work.append((rank, rank, row, start, end, name, *[name] * 3, None, None, None, launched, None,
                         2 * rank + 1, None, False, None, None))  # fmt: skip
            if kind != "k":
                operation = int(kind[1:] or number)
                parts.append((operation, "nccl", 0, rank, row, "world", 8, start, end, True, True, None, None))
                number += 1
    frame = pl.DataFrame(work, schema=WORK, orient="row").sort("start", "row")
    labels = tuple(f"{kind}{rank}" for rank in range(4) for kind in ("CUDA-D0.S", "thread "))
    labels += tuple(f"CUDA-D0.N{rank}" for rank in range(4))
    others = pl.len().over("operation") > 1
    last, waited_for = (pl.col(c).sort_by("began", "task").last().over("operation") for c in ("began", "task"))
    arrived = pl.DataFrame(parts, schema=PART, orient="row").with_columns(
        last=pl.when(others).then(last), waited_for=pl.when(others).then(waited_for)
    )
    run = run_of(frame, ranks=max(2, rank + 1))._replace(parts=arrived, row_labels=labels)
    return run._replace(active=Span(int(frame["start"].min()), int(frame["end"].max())))  # type: ignore[arg-type]

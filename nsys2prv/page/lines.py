"""The lines of the page's timeline and what is drawn on them: activities of devices and host threads, critical path.

Times are ns of the trace, so that a time on the page is the time in Paraver.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.frames import COPY, MPI, NCCL, Run
from nsys2prv.analysis.host import main_rows
from nsys2prv.analysis.interval_frames import joined_in_row
from nsys2prv.intervals.nesting import nesting
from nsys2prv.model.palette import (
    CALLS_COLOR,
    COMMUNICATION_COLOR,
    COMPUTE_COLOR,
    COPIES_COLOR,
    SERIES,
    SYNCHRONIZATION_COLOR,
    WAITING_COLOR,
    Color,
    operation_block,
)
from nsys2prv.model.schemas import to_schema
from nsys2prv.page.encoding import HIGHEST

DEVICE, MAIN, THREAD = "device", "main", "thread"
# Levels of NVTX ranges that have a strip of their own; deeper ones share the last.
RANGE_LEVELS = 3


class Kind(NamedTuple):
    """A kind of activity: its name, its color, and which strip of a line it has."""

    name: str
    color: Color
    strip: int


# An activity of WORK or CALLS is of one of these by its place here. On a device, compute lies in the first strip,
# communication in the second and copies in the third; on a host thread, ranges lie above calls. Colors are of the
# palette; `tests/page/test_page_detail.py` holds those of a line apart, also for those who cannot tell red from green.
KINDS = (
    Kind("compute", COMPUTE_COLOR, 0),
    Kind("waiting", WAITING_COLOR, 1),
    Kind("transfer", COMMUNICATION_COLOR, 1),
    Kind("copies", COPIES_COLOR, 2),
    Kind("synchronization", SYNCHRONIZATION_COLOR, 1),
    Kind("CUDA calls", CALLS_COLOR, 1),
    Kind("other calls", SERIES[4], 1),
    Kind("other MPI calls", operation_block("AlltoAll").color, 1),
    *(Kind(f"ranges, level {level + 1}", SERIES[(9, 5, 15)[level]], 3 + level) for level in range(RANGE_LEVELS)),
)
_COMPUTE, _WAITING, _TRANSFER, _COPIES, _SYNCHRONIZATION, _CUDA, _OTHER, _OTHER_MPI, _RANGES = range(9)
_CALL_KINDS = {"synchronization": _SYNCHRONIZATION, "cuda": _CUDA, MPI: _OTHER_MPI}

# `line`: index of the line; `kind`: index of KINDS; `note`: bytes of copies and transfers, of waiting the rank waited
# for plus 1; 0 if it is not known.
ACTIVITY = {
    "line": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "kind": pl.UInt8(),
    "name": pl.Categorical(),
    "note": pl.Int64(),
}
# A piece of the critical path; `kind` as of critical_path.PIECE.
PATH = {"line": pl.Int64(), "start": pl.Int64(), "end": pl.Int64(), "kind": pl.String()}


class Line(NamedTuple):
    """A line of the timeline. `kind`: DEVICE, MAIN for the main thread of a task, or THREAD for its other threads."""

    kind: str
    rank: int
    host: str
    label: str


class _Place(NamedTuple):
    """The place of a line among all, in their order. `number`: the index of the device, or the row of the thread."""

    rank: int
    of_thread: bool
    number: int


class Timeline(NamedTuple):
    """Lines by rank, devices before threads; what is drawn on them (ACTIVITY, by line and start), and PATH."""

    lines: tuple[Line, ...]
    activities: pl.DataFrame
    path: pl.DataFrame


def timeline(analysis: Analysis) -> Timeline:
    """Return the timeline of a whole run: a line each device, and each host thread with calls or NVTX ranges."""
    run = analysis.run
    threads = _threads(run)
    order = sorted(
        [_Place(device.rank, False, number) for number, device in enumerate(run.devices)]
        + [_Place(run.rank(task), True, row) for task, row in threads]
    )
    devices, rows = (
        {place.number: line for line, place in enumerate(order) if place.of_thread == of_thread}
        for of_thread in (False, True)
    )
    parts = [
        _device_work(run, devices),
        _exchanges(analysis, devices, rows),
        _calls(analysis, rows),
        _ranges(run, rows),
    ]
    activities = pl.concat([to_schema(part, ACTIVITY) for part in parts])
    return Timeline(
        lines=_named(run, order, {row: task for task, row in threads}),
        activities=activities.sort("line", "start", "end", descending=[False, False, True], maintain_order=True),
        path=_path(analysis, devices, rows),
    )


def _threads(run: Run) -> list[tuple[int, int]]:
    """Return task and row of each host thread that calls anything or has ranges."""
    parts = [frame.select("task", "row") for frame in (run.calls, run.ranges)]
    return pl.concat(parts).unique().sort("task", "row").unique("row", keep="first").sort("task", "row").rows()


def _named(run: Run, order: list[_Place], task_of: dict[int, int]) -> tuple[Line, ...]:
    """Return the lines in order. `task_of`: of the row of each thread."""
    lines, main = [], _main_rows(run, task_of)
    for rank, of_thread, number in order:
        if not of_thread:
            device = run.devices[number]
            lines.append(Line(DEVICE, rank, device.host, f"GPU {device.gpu}"))
            continue
        name = run.row_labels[number] if number < len(run.row_labels) else "thread"
        lines.append(Line(MAIN if number in main else THREAD, rank, run.tasks[task_of[number]].host, name))
    return tuple(lines)


def _main_rows(run: Run, task_of: dict[int, int]) -> set[int]:
    """Return the row of each task's main thread: that of the analysis; the first where only ranges are known."""
    first = {task: row for row, task in sorted(task_of.items(), reverse=True)}
    return set({**first, **dict(main_rows(run.calls).rows())}.values())


def _mapped(column: str, line_of: dict[int, int]) -> pl.Expr:
    return pl.col(column).replace_strict(line_of, default=None, return_dtype=pl.Int64)


def _bytes() -> pl.Expr:
    """Return bytes as the page takes them: 0 where they are not known; damaged reports have negative ones."""
    return pl.col("bytes").fill_null(0).clip(0, HIGHEST - 1)


def _device_work(run: Run, devices: dict[int, int]) -> pl.DataFrame:
    kind = pl.when(pl.col("kind") == COPY).then(_COPIES).otherwise(_COMPUTE)
    own = run.work.filter(pl.col("kind") != NCCL)
    return own.select(_mapped("device", devices).alias("line"), "start", "end", kind.alias("kind"), "name",
                      note=_bytes()).drop_nulls("line")  # fmt: skip


def _exchanges(analysis: Analysis, devices: dict[int, int], rows: dict[int, int]) -> pl.DataFrame:
    """Return NCCL kernels and MPI calls, each as its waiting and its transfer."""
    ranks = pl.col("waited_for").replace_strict(analysis.run.ranks, default=None, return_dtype=pl.Int64)
    on_device = pl.col("kind") == NCCL
    line = pl.when(on_device).then(_mapped("device", devices)).otherwise(_mapped("row", rows))
    own = analysis.explanation.exchanges.with_columns(line=line, name=pl.col("operation")).drop_nulls("line")
    waiting = own.filter(pl.col("ready") > pl.col("start")).select(
        "line", "start", end="ready", kind=pl.lit(_WAITING), name="name", note=(ranks + 1).fill_null(0)
    )
    transfer = own.filter((pl.col("end") > pl.col("ready")) | (pl.col("start") == pl.col("end"))).select(
        "line", start="ready", end="end", kind=pl.lit(_TRANSFER), name="name", note=_bytes()
    )
    return pl.concat([waiting, transfer])


def _calls(analysis: Analysis, rows: dict[int, int]) -> pl.DataFrame:
    """Return the calls of threads, but for MPI calls that carry operations."""
    carrying = analysis.explanation.exchanges.filter(pl.col("kind") == MPI)["index"]
    own = analysis.run.calls.with_row_index("index").filter(
        ~pl.col("index").is_in(carrying.implode()) | (pl.col("kind") != MPI)
    )
    kind = pl.col("kind").cast(pl.String).replace_strict(_CALL_KINDS, default=_OTHER, return_dtype=pl.Int64)
    return own.select(_mapped("row", rows).alias("line"), "start", "end", kind.alias("kind"), "name", note=pl.lit(0))


def _ranges(run: Run, rows: dict[int, int]) -> pl.DataFrame:
    own = run.ranges.filter(pl.col("end") > pl.col("start")).select(
        _mapped("row", rows).alias("line"), "start", "end", name="text", note=pl.lit(0)
    )
    depth = nesting(*(own[c].to_numpy() for c in ("line", "start", "end"))).depth
    return own.with_columns(kind=pl.Series(_RANGES + np.minimum(depth, RANGE_LEVELS - 1)))


def _path(analysis: Analysis, devices: dict[int, int], rows: dict[int, int]) -> pl.DataFrame:
    """Return PATH: pieces of one kind that follow each other on a line are one piece."""
    run, pieces = analysis.run, analysis.explanation.path
    of_row = {row: devices[device] for row, device in run.work.select("row", "device").unique("row").rows()}
    placed = pieces.select(_mapped("row", {**rows, **of_row}).alias("line"), "start", "end", "kind")
    placed = placed.with_columns(pl.col("line").forward_fill().backward_fill()).drop_nulls("line")
    return to_schema(joined_in_row(placed, "line", "kind"), PATH)

"""The summary of one extracted report: small, with all that the plan needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.model.device_kinds import DeviceKind, LaunchCount
from nsys2prv.model.frames import ANCHOR, NumberedRanges
from nsys2prv.model.losses import Lost
from nsys2prv.report.identity import Identity

# `events`: begins and ends of intervals, to be drawn; `intervals`: whole ones, for analysis; `ends`: of operations that
# cross ranks; `arrivals`: when such operations could go on (see match.waiting).
SpillKind = Literal["events", "samples", "messages", "states", "intervals", "ends", "wait_calls", "arrivals", "lines"]


class Spill(NamedTuple):
    """Points of one family of one report, sorted by time, in a file or `held` in memory, and their index.

    `first` and `last` are the times (ns, the report's clock) of the first and last point of each batch, and `reach` the
    latest end of an interval of the batch, `last` of points that have no end. Ends are sorted by key instead, and so is
    their index. `begins`: begin of each batch, and end of the last one, in bytes of the file or rows of `held`. The
    combinations of events are held with them, or lie before their first batch.
    """

    path: Path
    kind: SpillKind
    family: str
    rows: int
    # Values of `columns` that are written.
    pairs: int
    columns: tuple[str, ...]
    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    reach: npt.NDArray[np.int64]
    held: pl.DataFrame | None = None
    combinations: pl.DataFrame | None = None
    begins: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
    # Offsets to add to its numbers of places, slots and members: each part of a report counts from 0.
    places: int = 0
    slots: int = 0
    members: int = 0


class MetricSamples(NamedTuple):
    """The stored samples of one GPU metric of one GPU in a report: Arrow files in `folder`, or `held` in memory.

    `place`: the GPU; `metric`: the key of its event type; `first`, `last`: times of its samples (ns, the report's
    clock).
    """

    place: int
    metric: str
    rows: int
    first: int
    last: int
    folder: Path
    held: pl.DataFrame | None = None


class FamilyCount(NamedTuple):
    """The rows of a family in one report: those drawn, and those lost or altered."""

    rows: int
    dropped: Mapping[Lost, int] = {}


# The use of a place by a family: rows drawn on it, first begin and last end (ns), and if they give a thread a row.
PLACE_USE = {
    "place": pl.UInt32(),
    "family": pl.String(),
    "makes_rows": pl.Boolean(),
    "rows": pl.UInt32(),
    "first": pl.Int64(),
    "last": pl.Int64(),
}
# First and last sample of each metric of a GPU, which the plan compares with other reports of that GPU.
SAMPLE_EDGE = {
    "place": pl.UInt32(),
    "time": pl.Int64(),
    "column": pl.String(),
    "value": pl.Int64(),
    "changed": pl.Boolean(),
    # Samples of the place a ns, as recorded, whatever time is drawn; null where another row has it.
    "density": pl.Float64(),
    "is_first": pl.Boolean(),
    "is_last": pl.Boolean(),
    # Not a sample: METRICS_SAMPLED ends here, one period after the last one.
    "is_end": pl.Boolean(),
}


class Summary(NamedTuple):
    """One report: its identity, places, names and stored points."""

    path: Path
    name: str
    identity: Identity
    # PLACE: places under the report's numbers.
    places: pl.DataFrame
    # PLACE_USE: rows of each family on each place, with first and last time.
    uses: pl.DataFrame
    # SAMPLE_EDGE.
    edges: pl.DataFrame
    # Keys of the event types, at the report's number of each.
    slots: tuple[str, ...]
    # By key of the event types: rows of each, and texts of the labelled ones in the order of the report's numbers.
    rows_by_type: Mapping[str, int]
    labels: Mapping[str, list[str]]
    # The report's own numbers in a block of event types (a metric's id).
    preferred: Mapping[str, int]
    spills: tuple[Spill, ...]
    counts: Mapping[str, FamilyCount]
    # Rows that the report holds of families that were not asked for.
    off: Mapping[str, int]
    # First begin and last end of the NVTX range that was asked for, the report's clock.
    range_span: tuple[int, int] | None
    # Warnings and errors of nsys that the report holds (report/diagnostics.py).
    diagnostics: tuple[str, ...]
    # Members of communicators: columns of interning.MEMBER.
    members: pl.DataFrame
    # Ends of operations that cross ranks, sorted by match key.
    operation_ends: tuple[Spill, ...]
    # Remarks of families.
    remarks: tuple[str, ...] = ()
    # Calls that put work on a device, by process (globalPid) and kind of work, in the whole report.
    launches: Mapping[tuple[int, DeviceKind], LaunchCount] = {}
    # Processes and kinds of work with any such work, in the whole report; None: not looked for.
    working: frozenset[tuple[int, DeviceKind]] | None = None
    # Rows of tables and views that look like events, and are not read.
    unread: Mapping[str, int] = {}
    # ANCHOR, a bounded sample.
    anchors: pl.DataFrame = pl.DataFrame(schema=ANCHOR)
    # GPU metrics that analysis asked for.
    metrics: tuple[MetricSamples, ...] = ()
    # Intervals and messages stored whole, if analysis reads them.
    analyzed: tuple[Spill, ...] = ()
    # Calls that make streams and threads wait for device work: columns of WAIT_CALL.
    wait_calls: tuple[Spill, ...] = ()
    # Most bytes of device memory in use by place of a process' GPU, and when (ns, the report's clock).
    memory_peaks: Mapping[int, tuple[int, int]] = {}
    # Ranges that may number the iterations of the run.
    numbered: NumberedRanges = NumberedRanges()

"""The samples of one place, slice by slice: samples with a changed value become points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from nsys2prv.intervals.reduction import Averages
from nsys2prv.intervals.sampling import FIRST_DISTANCES, pauses, period_of, without_stops
from nsys2prv.intervals.spans import Span, Times
from nsys2prv.model.event_types import METRICS_SAMPLED
from nsys2prv.model.frames import SAMPLE, Samples
from nsys2prv.model.losses import Loss, Tally
from nsys2prv.pipeline.extract.changed_samples import Changes, changes_of
from nsys2prv.run.report_summary import SAMPLE_EDGE

# 1 at the first sample and after a pause, 0 where a pause begins, one period after the last sample before it.
_SAMPLED = METRICS_SAMPLED.key


@dataclass
class PlaceSamples:
    """State of a place's samples from slice to slice.

    `periodic`: a sample holds for one sampling period at most. Where none follows within 1.5 periods, a row is added
    one period after it, with 0 in the column METRICS_SAMPLED. Paraver holds a value until the next one: what sums up
    values over time, such as our cfgs, must leave out the time in which METRICS_SAMPLED is 0.
    """

    span: Span | None
    # The averages, if samples are averaged over periods.
    averages: Averages | None = None
    periodic: bool = False
    # The sampler's period (0: not known yet), the samples that wait until it is known, and the last one's time.
    period: int = 0
    unended: list[pl.DataFrame] = field(default_factory=list)
    latest: int | None = None
    # True while the last value that is drawn is sampled.
    open: bool = False
    # One row each: every metric's last value before the span, at its start; and its last value so far.
    before: pl.DataFrame | None = None
    held: pl.DataFrame | None = None
    # Rows that wait, at most one for each metric: its last sample so far, which is an edge if no further one follows.
    waiting: Changes | None = None
    begun: set[str] = field(default_factory=set)
    # Number, first and last time of all samples so far.
    recorded: tuple[int, int, int] | None = None

    def taken(self, frame: Samples, tally: Tally) -> Samples:
        """Take in samples; return those within the span, or the means over completed periods."""
        self._count(frame.data)
        if not self.periodic:
            return self._drawn(frame, tally)
        self.unended.append(frame.data)
        if not self.period and sum(frame.height for frame in self.unended) <= FIRST_DISTANCES:
            return Samples(frame.data.clear(), frame.columns)
        return self._drawn(self._ended(), tally)

    def _drawn(self, frame: Samples, tally: Tally) -> Samples:
        """Return the samples within the span, or the means over the periods that they complete."""
        inside = self._cut(frame, tally)
        if self.periodic and inside.data.height:
            sampled = inside.data[_SAMPLED].drop_nulls()
            self.open = bool(sampled[-1]) if len(sampled) else self.open
        return inside if self.averages is None else self.averages.add(inside)

    def _ended(self) -> Samples:
        """Return the samples that waited, with a row where each pause begins, and the column METRICS_SAMPLED."""
        data = _together(self.unended)
        self.unended = []
        if data.is_empty():
            return Samples.of(data)
        times = data["time"].to_numpy()
        self.period = self.period or period_of(times)
        known = times if self.latest is None else np.append(np.int64(self.latest), times)
        paused = pauses(known, self.period)
        begins = pl.Series(known[paused + 1], dtype=pl.Int64)
        if self.latest is None:
            begins = begins.append(pl.Series([times[0]], dtype=pl.Int64))
        self.latest = int(times[-1])
        sampled = pl.when(pl.col("time").is_in(begins.implode())).then(1).cast(pl.Int64).alias(_SAMPLED)
        return Samples.of(_with_ends(data.with_columns(sampled), known[paused] + self.period))

    def end(self) -> int | None:
        """Return the time one period after the last sample that is drawn; None beyond the span, or if none is drawn."""
        if not self.open or self.latest is None:
            return None
        # One sample alone has no period. What lasts beyond the span holds to the end of the trace.
        end = self.latest + max(self.period, 1)
        return end if self.span is None or end < self.span.end else None

    def _count(self, data: pl.DataFrame) -> None:
        """Count samples, whether they are drawn or not, and widen the time that they span."""
        if data.is_empty():
            return
        low, high = data.select(low=pl.col("time").min(), high=pl.col("time").max()).row(0)
        rows, first, last = self.recorded or (0, low, high)
        self.recorded = rows + data.height, min(first, low), max(last, high)

    def _density(self) -> float | None:
        """Return all samples so far by ns of the time that they span; None without any."""
        if self.recorded is None:
            return None
        rows, first, last = self.recorded
        return rows / (last - first + 1)

    def _cut(self, frame: Samples, tally: Tally) -> Samples:
        """Return the samples within the span. Each metric's last value before the span is repeated at its start."""
        if self.span is None:
            return frame
        time = pl.col("time")
        inside = frame.data.filter((time >= self.span.start) & (time < self.span.end))
        tally.count(Loss.OUTSIDE, without_stops(frame.data).height - without_stops(inside).height)
        early = frame.data.filter(time < self.span.start)
        if early.height:
            last_values = _together([self.before, early]).select(pl.all().forward_fill().last())
            self.before = last_values.with_columns(time=pl.lit(self.span.start, pl.Int64))
        if self.periodic and self.before is not None and self.before[_SAMPLED][0] == 0:
            # The sampler paused before the span.
            self.before = None
        if inside.height:
            before, self.before = self.before, None
            if before is not None and inside["time"][0] == self.span.start:
                # A metric that is sampled at the very start needs no repetition.
                before = _together([before, inside.head(1)]).select(pl.all().forward_fill().last())
                inside = inside.slice(1)
            if before is not None:
                inside = _together([before, inside])
        return Samples.of(inside)

    def rest(self, tally: Tally) -> Samples | None:
        """Return the remaining samples: values from before the span if none was in it, and the last means."""
        waiting = self._drawn(self._ended(), tally).data if self.unended else None
        before, self.before = self.before, None
        if before is not None:
            self.open = self.periodic
            end = self.end()
            # A value that ended before the span does not hold at its start.
            self.open = self.open and (end is None or end > int(before["time"][0]))
            return Samples.of(before) if self.open or not self.periodic else None
        means = None if self.averages is None else self.averages.rest(tally)
        left = [
            frame for frame in (waiting, None if means is None else means.data) if frame is not None and frame.height
        ]
        return Samples.of(_together(left)) if left else None

    def points(self, frame: Samples | None, last: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return one row a time with changed values, and the edges, of the samples so far. `last`: none will follow.

        The first and the last sample of each metric are always written. Only the plan knows if another report goes on
        where this one ends: so the rows with these samples are returned apart (SAMPLE_EDGE).
        """
        found = self._changes(frame)
        lasts = found.lasts()
        if last:
            found = found._replace(edge=found.edge | lasts)
        else:
            self.waiting, found = found.chosen(lasts), found.chosen(~lasts)
        density = pl.lit(self._density() if last else None, pl.Float64)
        edges = found.edges().with_columns(density=density, is_end=pl.lit(False))
        points = found.points()
        if last and (end := self.end()) is not None and self.held is not None:
            ends = pl.DataFrame({"column": [_SAMPLED]}).with_columns(
                place=pl.lit(self.held["place"][0], pl.UInt32),
                time=pl.lit(end, pl.Int64),
                value=pl.lit(0, pl.Int64),
                changed=pl.lit(True),
                density=density,
                is_end=pl.lit(True),
            )
            edges = pl.concat([edges, ends.select(edges.columns)])
        return points, edges

    def _changes(self, frame: Samples | None) -> Changes:
        """Return the rows that waited and those of a frame, with what changed in them."""
        rows = _together([self.held, None if frame is None else frame.data])
        columns = Samples.of(rows).columns
        found = changes_of(rows, columns, self.begun)
        # The row of the last values is only compared with.
        new = found.since(0 if self.held is None else 1)
        if rows.height:
            self.held = found.latest
        self.begun |= {c for c in columns if rows[c].count()}
        waited, self.waiting = self.waiting, None
        return new if waited is None else new.behind(waited)


def _with_ends(data: pl.DataFrame, times: Times) -> pl.DataFrame:
    """Add a row at each of some times (ns), from which on nothing is sampled."""
    if not len(times):
        return data
    place, none = pl.lit(data["place"][0], pl.UInt32).alias("place"), pl.lit(0, pl.Int64).alias(_SAMPLED)
    return _together([data, pl.DataFrame({"time": times}).with_columns(place, none)]).sort("time", maintain_order=True)


def _together(frames: Sequence[pl.DataFrame | None]) -> pl.DataFrame:
    """Concatenate frames; metrics that a frame lacks are null there."""
    some = [frame for frame in frames if frame is not None]
    if not some:
        return pl.DataFrame(schema=SAMPLE)
    return some[0] if len(some) == 1 else pl.concat(some, how="diagonal")


def finished(edges: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return SAMPLE_EDGE of the samples of a report."""
    time = pl.when(~pl.col("is_end")).then("time")
    none = pl.DataFrame(schema={c: t for c, t in SAMPLE_EDGE.items() if c not in ("is_first", "is_last")})
    return pl.concat([none, *(e.select(none.columns) for e in edges)]).with_columns(
        is_first=(time == time.min().over("place", "column")).fill_null(False),
        is_last=(time == time.max().over("place", "column")).fill_null(False),
    ).select(*SAMPLE_EDGE)  # fmt: skip

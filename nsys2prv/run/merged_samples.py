"""Samples of a GPU or network card that several reports hold: which are kept, and what stands at their borders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.intervals.sampling import LONG_GAP
from nsys2prv.run.clocks import Clock
from nsys2prv.run.report_summary import Summary
from nsys2prv.run.trace_rows import NO_ROW

# The samples of one place in one report: on which row, when (merged ns), how many, and how many a ns.
SAMPLED_PLACE = {
    "report": pl.Int64(),
    "place": pl.Int64(),
    "row": pl.Int64(),
    "family": pl.String(),
    "first": pl.Int64(),
    "last": pl.Int64(),
    "rows": pl.Int64(),
    "sampler": pl.String(),
    "density": pl.Float64(),
}


class _SampledPlace(NamedTuple):
    """The samples of one place in one report: a row of SAMPLED_PLACE."""

    report: int
    place: int
    row: int
    family: str
    first: int
    last: int
    rows: int
    sampler: str
    density: float

    def meets(self, other: _SampledPlace) -> bool:
        """Return True if another report has samples of the same thing, on the same row, at the same time."""
        same = (self.row, self.family, self.sampler) == (other.row, other.family, other.sampler)
        return same and self.report != other.report and self.first <= other.last and other.first <= self.last


def sampled_places(
    summaries: Sequence[Summary], clocks: Sequence[Clock], row_of: Sequence[npt.NDArray[np.int64]]
) -> pl.DataFrame:
    """Compare each report's samples of a row: columns of SAMPLED_PLACE (first and last in merged ns), and `kept`.

    If two reports sampled a GPU or network card at the same time, the denser samples stay. The density as recorded
    counts, so that a chosen time and means over periods choose the samples of the whole run.
    """
    sampled = [*_sampled(summaries, clocks, row_of)]
    kept = _densest(sampled)
    frame = pl.DataFrame(sampled, schema=SAMPLED_PLACE, orient="row")
    return frame.with_columns(kept=pl.Series([one in kept for one in sampled], dtype=pl.Boolean))


def _sampled(
    summaries: Sequence[Summary], clocks: Sequence[Clock], row_of: Sequence[npt.NDArray[np.int64]]
) -> Iterator[_SampledPlace]:
    """Yield the samples of each report on each row."""
    for r, summary in enumerate(summaries):
        stored = pl.DataFrame({"place": [metric.place for metric in summary.metrics]}, schema={"place": pl.UInt32()})
        used = summary.uses.join(pl.concat([summary.edges.select("place"), stored]), on="place", how="semi")
        named = used.join(summary.places.select("sampler", place="id"), on="place", how="left", maintain_order="left")
        known = summary.edges.group_by("place").agg(pl.col("density").max())
        dense = named.join(known, on="place", how="left", maintain_order="left")
        columns = ("place", "family", "rows", "first", "last", "sampler", "density")
        for place, family, rows, first, last, sampler, density in dense.select(columns).rows():
            if (row := int(row_of[r][place])) != NO_ROW:
                span = clocks[r].merged_one(first), clocks[r].merged_one(last)
                drawn_density = rows / (span[1] - span[0] + 1)
                yield _SampledPlace(r, place, row, family, *span, rows, sampler, density or drawn_density)


def _densest(sampled: Sequence[_SampledPlace]) -> set[_SampledPlace]:
    """Return the samples that stay: the densest of those that meet."""
    kept: list[_SampledPlace] = []
    # A single sample has no period: it may be a value from before the chosen time, which holds at its begin.
    for one in sorted(sampled, key=lambda p: (p.rows == 1, -p.density, p)):
        if not any(one.meets(k) for k in kept):
            kept.append(one)
    return set(kept)


def edge_samples(summaries: Sequence[Summary], clocks: Sequence[Clock], sampled: pl.DataFrame) -> pl.DataFrame:
    """Return the first and last samples to write, and ends: time (merged ns), row, and one column for each metric.

    A metric is written if its value changed, and at its first and last sample over all reports; METRICS_SAMPLED where
    the samples end. A report that goes on where another ended begins with the changed metrics only.
    """
    of_places = []
    for report, place, row, first in sampled.filter("kept").select("report", "place", "row", "first").rows():
        edges = summaries[report].edges.filter(pl.col("place") == place)
        merged = pl.Series(clocks[report].merged(edges["time"].to_numpy()))
        of_places.append(edges.with_columns(time=merged, row=pl.lit(row, pl.Int64), since=pl.lit(first, pl.Int64)))
    if not of_places:
        return pl.DataFrame(schema={"time": pl.Int64(), "row": pl.Int64()})
    metric = ["row", "column"]
    # Gap, in periods, from the end of a report's samples (a period after the last one) to the first of the next report.
    gap = (pl.col("time").shift(-1).over(metric) - pl.col("time")) * pl.col("density")
    followed = gap <= LONG_GAP - 1
    edges = (
        pl.concat(of_places)
        .sort("row", "column", "since", "time")
        .filter(~(pl.col("is_end") & followed.fill_null(False)))
        .with_columns(
            before=pl.col("value").shift(1).over(metric),
            final=pl.int_range(pl.len()).over(metric) == pl.len().over(metric) - 1,
        )
    )
    goes_on = pl.when("is_first").then(pl.col("before").ne_missing(pl.col("value"))).otherwise("changed")
    written = edges.filter(goes_on | pl.col("final"))
    wide: pl.DataFrame = written.sort("column").pivot(on="column", index=["time", "row"], values="value")
    return wide.sort("time", "row")

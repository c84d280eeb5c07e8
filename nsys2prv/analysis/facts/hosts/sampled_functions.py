"""Samples of launching threads by the idle time that they lie in: which functions run while devices have no work."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.facts.gaps import device_work, idle_gaps, kept_time
from nsys2prv.analysis.frames import SAMPLED, SampledFunctions
from nsys2prv.analysis.idle.idle_gaps import activities_around
from nsys2prv.errors import Nsys2prvError
from nsys2prv.intervals.spans import Spans
from nsys2prv.model.schemas import to_schema


def sampled_functions(analysis: Analysis, timed: Spans) -> SampledFunctions:
    """Return samples of the time that counts, the most frequent first, or why they could not be read.

    `timed`: when devices only time kernels (see idle_gaps), which does not count.
    """
    if analysis.run.host_samples is None:
        return SampledFunctions()
    try:
        samples = analysis.run.host_samples()
    except Nsys2prvError as error:
        # Workers on other machines may see reports that this process does not.
        return SampledFunctions(unread=(f"Samples of host threads could not be read: {error}",))
    return SampledFunctions(_counted(_idle_of_threads(analysis, timed), samples))


def _counted(idle: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Return SAMPLED of some samples (HOST_SAMPLE). `idle`: see _idle_of_threads."""
    own = samples.filter(pl.col("row").is_in(idle["row"].unique().implode())).sort("time")
    placed = own.join_asof(idle, left_on="time", right_on="start", by="row", check_sortedness=False)
    by = ("family", "function", "file", "after", "before")
    counted = (
        placed.filter(pl.col("time") < pl.col("until"))
        .group_by(pl.col(c).cast(pl.String) for c in by)
        .agg(samples=pl.len())
        .with_columns(share=pl.col("samples") / pl.col("samples").sum().over("family"))
    )
    ordered = counted.sort("samples", *by, descending=[True, *(False for _ in by)])
    return to_schema(ordered, SAMPLED)


def _idle_of_threads(analysis: Analysis, timed: Spans) -> pl.DataFrame:
    """Return row, start, until (ns of the trace), after and before of idle times, by the thread that launches next."""
    axis, _, found = idle_gaps(device_work(analysis), kept_time(analysis), timed)
    start, until = (found[name].to_numpy() for name in ("start", "until"))
    around = activities_around(analysis.run.work, axis, found["end"].to_numpy())
    begin = pl.Series(axis.time(start))
    idle = found.select(row="caller_row").with_columns(start=begin, until=begin + pl.Series(until - start))
    # Where the work was launched before, `until` is the begin.
    return idle.hstack(around).drop_nulls("row").filter(pl.col("until") > pl.col("start")).sort("start")

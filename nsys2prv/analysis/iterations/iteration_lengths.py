"""The length of iterations, so that they add up to the time of a run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.iterations.from_one_to_the_next import from_one_to_the_next, overlap_on_devices
from nsys2prv.intervals.spans import Spans, union
from nsys2prv.run.steady import Window


def iteration_lengths(iterations: pl.DataFrame) -> npt.NDArray[np.float64]:
    """Return the length (ns) of each steady iteration, in order. `iterations`: ITERATION of all of a run.

    It is from its first device activity over all ranks to that of the next iteration, as for `whatif`; without a next
    one to its own end: of its device work, or of its first host, whichever comes later. Where iterations overlap on
    devices it is from the end of one to that of the next. Iterations without device activity count, by their ranges on
    the host, where no other one has any.
    """
    spans = _spans(iterations)
    each = _steady(spans, overlap_on_devices(spans))
    return (each["until"] - each["begin"]).to_numpy().astype(np.float64)


def whole_iterations(iterations: pl.DataFrame, window: Window) -> Spans:
    """Return the spans (ns of the trace) of the window's iterations with the time from each to the next one.

    `iterations`: ITERATION of all of a run. A window without iterations has nothing but its own spans.
    """
    if not window.iterations:
        return window.spans
    each = _steady(_spans(iterations), by_ends=False)
    both = [(each["begin"], window.spans.start), (each["until"], window.spans.end)]
    return union(*(np.concatenate([own.to_numpy(), others]) for own, others in both))


def overlapping_iterations(iterations: pl.DataFrame) -> pl.DataFrame | None:
    """Return repeat, number, begin and until (ns) of all iterations in order, None if few overlap on devices.

    `iterations`: ITERATION of all of a run.
    """
    spans = _spans(iterations)
    if not overlap_on_devices(spans):
        return None
    return (
        from_one_to_the_next(spans, by_ends=True).sort("repeat", "number").select("repeat", "number", "begin", "until")
    )


def _steady(spans: pl.DataFrame, by_ends: bool) -> pl.DataFrame:
    """Return the steady iterations of `_spans`, in order of repeat and number (see `from_one_to_the_next`)."""
    return from_one_to_the_next(spans, by_ends).filter("steady").sort("repeat", "number")


def _spans(iterations: pl.DataFrame) -> pl.DataFrame:
    """Return repeat, number, start, end (ns) and steady of the iterations of ITERATION, over all ranks."""
    key = ["repeat", "iteration"]
    if iterations["device_start_ns"].is_not_null().any():
        iterations = iterations.filter(pl.col("device_start_ns").is_not_null().any().over(key))
    start = pl.coalesce(pl.col("device_start_ns").min(), pl.col("start_ns").min())
    # The next one would have begun with the first rank to begin it.
    ends = (pl.col("device_start_ns") + pl.col("device_ns")).max(), (pl.col("start_ns") + pl.col("total_ns")).min()
    end = pl.max_horizontal(*ends)
    each = iterations.group_by(key).agg(start=start, end=end, steady=pl.col("steady").any())
    return each.rename({"iteration": "number"})

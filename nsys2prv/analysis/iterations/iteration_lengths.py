"""The length of iterations, so that they add up to the time of a run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.intervals.spans import Spans, union
from nsys2prv.run.steady import Window


def iteration_lengths(iterations: pl.DataFrame) -> npt.NDArray[np.float64]:
    """Return the length (ns) of each steady iteration, in order. `iterations`: ITERATION of all of a run.

    It is from its first device activity over all ranks to that of the next iteration, as for `whatif`; without a next
    one to its own end: of its device work, or of its first host, whichever comes later. Iterations without device
    activity count, by their ranges on the host, where no other one has any.
    """
    each = _steady(iterations)
    return (each["until"] - each["start"]).to_numpy().astype(np.float64)


def whole_iterations(iterations: pl.DataFrame, window: Window) -> Spans:
    """Return the spans (ns of the trace) of the window's iterations with the time from each to the next one.

    `iterations`: ITERATION of all of a run. A window without iterations has nothing but its own spans.
    """
    if not window.iterations:
        return window.spans
    each = _steady(iterations)
    both = [(each["start"], window.spans.start), (each["until"], window.spans.end)]
    return union(*(np.concatenate([own.to_numpy(), others]) for own, others in both))


def _steady(iterations: pl.DataFrame) -> pl.DataFrame:
    """Return `start` and `until` (ns) of the steady iterations, in order of repeat and iteration."""
    key = ["repeat", "iteration"]
    if iterations["device_start_ns"].is_not_null().any():
        iterations = iterations.filter(pl.col("device_start_ns").is_not_null().any().over(key))
    start = pl.coalesce(pl.col("device_start_ns").min(), pl.col("start_ns").min())
    # The next one would have begun with the first rank to begin it.
    ends = (pl.col("device_start_ns") + pl.col("device_ns")).max(), (pl.col("start_ns") + pl.col("total_ns")).min()
    end = pl.max_horizontal(*ends)
    each = iterations.group_by(key).agg(start=start, end=end, steady=pl.col("steady").any())
    # Those that a chosen time cuts begin together.
    each = each.sort("repeat", "start", "iteration")
    goes_on = pl.col("iteration").shift(-1).over("repeat") == pl.col("iteration") + 1
    until = pl.when(goes_on).then(pl.col("start").shift(-1).over("repeat")).otherwise("end")
    return each.with_columns(until=until).filter("steady").sort(key)

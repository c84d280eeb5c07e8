"""The length of iterations, so that they add up to the time of a run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.iterations.from_one_to_the_next import from_one_to_the_next, overlap_on_devices
from nsys2prv.intervals.spans import Spans, union
from nsys2prv.run.iterations.steady import Window


def iteration_lengths(iterations: pl.DataFrame) -> npt.NDArray[np.float64]:
    """Return the length (ns) of each steady iteration, in order. `iterations`: ITERATION of all of a run.

    It is from its first device activity over all ranks to that of the next iteration, as for `whatif`; without a next
    one to its own end: of its device work, or of its first host, whichever comes later. Where iterations overlap on
    devices it is from the end of one to that of the next. Iterations without device activity count, by their ranges on
    the host, where no other one has any.
    """
    each = _steady(iteration_spans(iterations))
    return (each["until"] - each["begin"]).to_numpy().astype(np.float64)


def iteration_spans(iterations: pl.DataFrame) -> pl.DataFrame:
    """Return repeat, number, steady, start, end, begin and until (ns) of all iterations over all ranks, in order.

    `begin` and `until` as for `iteration_lengths`. `iterations`: ITERATION of all of a run.
    """
    return from_one_to_the_next(_spans(iterations), last_by_ends(iterations)).sort("repeat", "number")


def last_by_ends(iterations: pl.DataFrame) -> bool:
    """Return True if iterations overlap on devices, so that they last from the end of one to that of the next.

    All that tells the time of iterations goes by it. `iterations`: ITERATION of all of a run.
    """
    return overlap_on_devices(_spans(iterations))


def work_lasts_by_ends(launched: pl.DataFrame, steps: pl.DataFrame) -> bool:
    """Return what `last_by_ends` does, where there is no ITERATION: of OCCURRENCE and the work launched in each."""
    key = ["task", "repeat", "number"]
    start = pl.col("start").min()
    own = launched.group_by(key).agg(device_start_ns=start, device_ns=pl.col("end").max() - start)
    table = steps.join(own, on=key, how="left").with_columns(total_ns=pl.col("end") - pl.col("start"), steady=True)
    return last_by_ends(table.rename({"number": "iteration", "start": "start_ns"}))


def whole_iterations(iterations: pl.DataFrame, window: Window) -> Spans:
    """Return the spans (ns of the trace) of the window's iterations with the time from each to the next one.

    Where iterations overlap on devices they are those of `iteration_lengths`, from the end of one to that of the next:
    what the first one computes beside earlier ones is theirs. `iterations`: ITERATION of all of a run. A window without
    iterations has nothing but its own spans.
    """
    if not window.iterations:
        return window.spans
    each = _steady(iteration_spans(iterations))
    if last_by_ends(iterations):
        return union(each["begin"].to_numpy(), each["until"].to_numpy())
    both = [(each["begin"], window.spans.start), (each["until"], window.spans.end)]
    return union(*(np.concatenate([own.to_numpy(), others]) for own, others in both))


def overlapping_iterations(iterations: pl.DataFrame) -> pl.DataFrame | None:
    """Return repeat, number, begin and until (ns) of all iterations in order, None if few overlap on devices.

    `iterations`: ITERATION of all of a run.
    """
    if not last_by_ends(iterations):
        return None
    return iteration_spans(iterations).select("repeat", "number", "begin", "until")


def _steady(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the steady iterations of `from_one_to_the_next`, in order of repeat and number."""
    return spans.filter("steady").sort("repeat", "number")


def _spans(iterations: pl.DataFrame) -> pl.DataFrame:
    """Return repeat, number, start, end (ns) and steady of the iterations of ITERATION, over all ranks.

    The end of hosts counts only of those without a next one, as in predictions: a host that pauses at the end of an
    iteration does not make its device work last longer.
    """
    key = ["repeat", "iteration"]
    if iterations["device_start_ns"].is_not_null().any():
        iterations = iterations.filter(pl.col("device_start_ns").is_not_null().any().over(key))
    start = pl.coalesce(pl.col("device_start_ns").min(), pl.col("start_ns").min())
    # The next one would have begun with the first rank to begin it.
    host_end = (pl.col("start_ns") + pl.col("total_ns")).min()
    device_end = (pl.col("device_start_ns") + pl.col("device_ns")).max()
    each = iterations.group_by(key).agg(
        start=start, device_end=device_end, host_end=host_end, steady=pl.col("steady").any()
    )
    following = each.select("repeat", pl.col("iteration") - 1, followed=pl.lit(True))
    each = each.join(following, on=key, how="left")
    last = pl.col("device_end").is_null() | pl.col("followed").is_null()
    end = pl.max_horizontal("device_end", pl.when(last).then("host_end"))
    return each.select("repeat", "start", "steady", number="iteration", end=end)

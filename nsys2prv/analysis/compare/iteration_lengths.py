"""The length of iterations, so that they add up to the time of a run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl


def iteration_lengths(iterations: pl.DataFrame) -> npt.NDArray[np.float64]:
    """Return the length (ns) of each steady iteration, in order. `iterations`: ITERATION of all of a run.

    It is from its first device activity over all ranks to that of the next iteration, as for `whatif`; without a next
    one to its own end: of its device work, or of its first host, whichever comes later. Iterations without device
    activity count, by their ranges on the host, where no other one has any.
    """
    key = ["repeat", "iteration"]
    if iterations["device_start_ns"].is_not_null().any():
        iterations = iterations.filter(pl.col("device_start_ns").is_not_null().any().over(key))
    start = pl.coalesce(pl.col("device_start_ns").min(), pl.col("start_ns").min())
    # The next one would have begun with the first rank to begin it.
    ends = (pl.col("device_start_ns") + pl.col("device_ns")).max(), (pl.col("start_ns") + pl.col("total_ns")).min()
    end = pl.max_horizontal(*ends)
    each = iterations.group_by(key).agg(start=start, end=end, steady=pl.col("steady").any()).sort("repeat", "start")
    goes_on = pl.col("iteration").shift(-1).over("repeat") == pl.col("iteration") + 1
    until = pl.when(goes_on).then(pl.col("start").shift(-1).over("repeat")).otherwise("end")
    lengths = each.with_columns(length=until - pl.col("start")).filter("steady").sort(key)["length"]
    return lengths.to_numpy().astype(np.float64)

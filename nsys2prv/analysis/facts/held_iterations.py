"""The iterations that the window of an NVTX range holds, and what predicted changes gain in them."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.iterations.phases import occurrences
from nsys2prv.analysis.iterations.window import iterations_over_ranges
from nsys2prv.run.iterations.steady import BUILT_IN_WINDOWS


def held_iterations(analysis: Analysis) -> pl.DataFrame | None:
    """Return repeat and iteration of those that `whatif` predicts for a window of a range, and of those between them.

    None: the window holds all iterations. So do windows of other kinds, and one with all the work of the run.
    """
    run, window = analysis.run, analysis.window
    low, high = run.active
    if window.name in BUILT_IN_WINDOWS or (window.start <= low and high <= window.end):
        return None
    steps = analysis.iterations.select(
        pl.col("rank").replace_strict(run.task_by_rank, return_dtype=pl.Int64).alias("task"),
        "repeat",
        number="iteration",
        start="start_ns",
        end=pl.col("start_ns") + pl.col("total_ns"),
    )
    own = iterations_over_ranges(steps, occurrences(analysis.main_ranges, window.name))
    return own.rename({"number": "iteration"})


def predicted_gain(analysis: Analysis, changes: tuple[str, ...], held: pl.DataFrame | None) -> float:
    """Return the time (ns of an iteration) that predicted changes gain together, 0 if they gain nothing.

    `held`: the iterations that count (see held_iterations).
    """
    known = {prediction.changes: prediction for prediction in analysis.explanation.predictions}
    if (prediction := known.get(changes)) is None:
        return 0.0
    own = prediction.iterations if held is None else prediction.iterations.join(held, on=held.columns, how="semi")
    saved = own["measured_ns"] - own["predicted_ns"]
    gain = saved.mean() if analysis.window.iterations else saved.sum()
    return max(float(gain or 0), 0.0)  # type: ignore[arg-type]

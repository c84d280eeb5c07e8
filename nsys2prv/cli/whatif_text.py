"""Predictions as text for the terminal."""

from __future__ import annotations

from nsys2prv.analysis.whatif import Prediction
from nsys2prv.cli.text_table import aligned, ms

# Highest number of iterations in the table.
MOST_ITERATIONS = 20


def prediction_text(found: Prediction) -> str:
    """Return a prediction as a sentence, then a table of iterations."""
    change = "less" if found.gain >= 0 else "more"
    what = "the window" if found.iterations["iteration"].null_count() else "an iteration"
    lines = [
        f"With {', '.join(found.changes)} {what} takes {ms(round(found.iteration_ns))} ms instead of "
        f"{ms(round(found.measured_ns))} ms: {100 * abs(found.gain):.1f} % {change} (means).",
        f"A replay without changes misses the measured times by {100 * found.replay_error:.2f} % at most.",
    ]
    rows = [
        ["" if i is None else str(i), ms(measured), ms(predicted), ms(measured - predicted)]
        for i, measured, predicted in found.iterations.select("iteration", "measured_ns", "predicted_ns").rows()
    ]
    table = aligned(["iteration", "measured ms", "predicted ms", "gain ms"], rows[:MOST_ITERATIONS])
    more = [f"{len(rows) - MOST_ITERATIONS} more iterations (--json has all)"] if len(rows) > MOST_ITERATIONS else []
    return "\n".join([*lines, "", table, *more])

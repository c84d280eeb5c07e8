"""Predictions as text for the terminal."""

from __future__ import annotations

from nsys2prv.analysis.predict.whatif import Prediction
from nsys2prv.cli.text_table import aligned, ms, printable

# Highest number of iterations in the table.
MOST_ITERATIONS = 20


def prediction_text(found: Prediction) -> str:
    """Return a prediction as a sentence, then a table of iterations."""
    percent = f"{100 * abs(found.gain):.1f} %"
    change = "no difference" if float(percent[:-2]) == 0 else f"{percent} {'less' if found.gain > 0 else 'more'}"
    what = "the window" if found.iterations["iteration"].null_count() else "an iteration"
    lines = [
        f"With {', '.join(found.changes)} {what} takes {ms(round(found.iteration_ns))} ms instead of "
        f"{ms(round(found.measured_ns))} ms: {change} (means).",
        f"A replay without changes misses the measured times by {100 * found.replay_error:.2f} % at most.",
    ]
    lines += [
        f"{printable(change)} changes nothing here: the run has none of it, or has it so already."
        for change in found.without_effect
    ]
    rows = [
        ["" if i is None else str(i), ms(measured), ms(predicted), ms(measured - predicted)]
        for i, measured, predicted in found.iterations.select("iteration", "measured_ns", "predicted_ns").rows()
    ]
    table = aligned(["iteration", "measured ms", "predicted ms", "gain ms"], rows[:MOST_ITERATIONS])
    more = [f"{len(rows) - MOST_ITERATIONS} more iterations (--json has all)"] if len(rows) > MOST_ITERATIONS else []
    return "\n".join([*lines, "", table, *more])

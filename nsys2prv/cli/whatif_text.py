"""Predictions as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.predict.whatif import Prediction
from nsys2prv.cli.screen import fitting
from nsys2prv.cli.text_table import TABLE_ROWS, aligned, ms, printable
from nsys2prv.model.basis import basis

# Where predictions are compared with programs that were changed.
AGAINST_REALITY = "docs/analysis.md (Predictions against reality)"
HEAD = ("iteration", "repeat", "measured ms", "predicted ms", "gain ms")
GAIN = pl.col("measured_ns") - pl.col("predicted_ns")


def prediction_text(found: Prediction) -> str:
    """Return a prediction as a sentence, then a table of the iterations that change most, and their sum."""
    percent = _percent(found)
    predicted, measured = ms(round(found.iteration_ns)), ms(round(found.measured_ns))
    gained = f"{abs(float(measured) - float(predicted)):.3f} ms, {percent if float(percent) else 'under 0.1'} %"
    change = "no difference" if predicted == measured else f"{gained} {'less' if found.gain > 0 else 'more'}"
    of_iterations = not found.iterations["iteration"].null_count()
    lines = [
        f"With {', '.join(found.changes)} {basis(of_iterations)} takes {predicted} ms instead of {measured} ms: "
        f"{change}{' (means)' * of_iterations}.",
        _computed(found.replay_error),
    ]
    nothing = zip(found.without_effect, found.why, strict=True)
    lines += [f"{printable(change)} changes nothing here: {why}." for change, why in nothing]
    lines += _reasons(found, of_iterations)
    told = map(fitting, lines)
    return "\n".join([*told, *_iterations(found.iterations)] if of_iterations else told)


def _computed(replay_error: float) -> str:
    """Return that a prediction is no measurement, and by how much the replay misses what was measured."""
    off = f"Without changes it is off by {100 * replay_error:.2f} % at most."
    return (
        f"This is a replay of the recording, no measurement. {off} How well such predictions hold: {AGAINST_REALITY}."
    )


def _percent(found: Prediction) -> str:
    """Return by how many percent the changes shorten or lengthen an iteration."""
    return f"{100 * abs(found.gain):.1f}"


def _reasons(found: Prediction, of_iterations: bool) -> Iterator[str]:
    """Yield why changes gain so little: hosts hide it, or the iterations begin earlier and end as before."""
    if _changing(found.iterations).is_empty() and found.changed and found.changed.pieces:
        pieces, every = found.changed.pieces, f"{ms(found.changed.ns)} ms in all that was recorded"
        yield (
            f"{pieces:,} piece{'s' * (pieces != 1)} of work change{'s' * (pieces == 1)}, by {every}, but none on the "
            "critical path: meanwhile other work takes as long, or none waits for it, or it is in no counted iteration."
        )
    if float(_percent(found)) > 0 and found.ends_no_later:
        earlier, one = ms(found.earlier_ns), "iteration" if of_iterations else "work"
        yield (
            f"Nothing gets slower: the last {one} ends no later than measured. The time is longer only because the "
            f"first one begins {earlier} ms earlier."
        )
    if found.without_hosts and found.hosts_hide_gain:
        alone, both = (ms(round(ns)) for ns in found.without_hosts)
        yield (
            f"Busy hosts hide most of the gain. If their work took no time (host=0), {basis(of_iterations)} would take "
            f"{alone} ms without this change, and {both} ms with it."
        )


def _changing(every: pl.DataFrame) -> pl.DataFrame:
    """Return the iterations of PREDICTED, numbered as `index`, whose gain the digits show."""
    return every.with_row_index().filter([float(ms(ns)) != 0 for ns in every.select(GAIN).to_series()])


def _iterations(every: pl.DataFrame) -> list[str]:
    """Return the iterations of PREDICTED that change most, in their order, then all of them together.

    Those whose gain the digits do not show are only counted, and so are those that change less than the others.
    """
    changed = _changing(every)
    if changed.is_empty():
        return [f"None of {every.height} iterations takes another time (--json has all)."] if every.height > 1 else []
    shown = changed.sort(GAIN.abs(), "index", descending=[True, False]).head(TABLE_ROWS).sort("index")
    of_repeats = every["repeat"].sum() > 0
    rows = [
        [str(number), str(repeat), *map(ms, (measured, predicted, measured - predicted))]
        for number, repeat, measured, predicted in shown.select(every.columns).rows()
    ]
    kept = [n for n, name in enumerate(HEAD) if name != "repeat" or of_repeats]
    table = aligned([HEAD[n] for n in kept], [[row[n] for n in kept] for row in rows])
    same, less = every.height - changed.height, changed.height - shown.height
    parts = [*([f"{less} that change{'s' * (less == 1)} less"] if less else [])]
    parts += [f"{same} that take{'s' * (same == 1)} the same time"] if same else []
    measured, predicted = (int(every[name].sum()) for name in ("measured_ns", "predicted_ns"))
    whole = (
        f"All {every.height} together: {ms(measured)} ms measured, {ms(predicted)} predicted, "
        f"gain {ms(measured - predicted)}."
    )
    return [
        "",
        table,
        *([whole] if every.height > 1 else []),
        *([f"Not listed: {', '.join(parts)}. --json has all."] if parts else []),
    ]

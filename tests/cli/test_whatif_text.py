"""What `whatif` prints of iterations."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.predict.whatif import PREDICTED, Prediction
from nsys2prv.cli.whatif_text import prediction_text


def _predicted(gains: dict[tuple[int, int], int]) -> Prediction:
    """Each iteration, by number and repeat, takes 1 ms less the gain in ns."""
    rows = [(number, repeat, 10**6, 10**6 - gain) for (number, repeat), gain in gains.items()]
    return Prediction(("delay=0",), pl.DataFrame(rows, schema=PREDICTED, orient="row"), 0.0)


def test_predicted_iterations_that_change_are_shown_and_the_others_counted() -> None:
    """A gain below the digits is none; of many the ten that change most are shown, in their order."""
    assert prediction_text(_predicted({(n, 0): 499 for n in range(20)})).splitlines()[-1] == (
        "None of 20 iterations takes another time (--json has all)."
    )
    lines = prediction_text(_predicted({(n, 0): (10 + n) * 1000 * (n % 2) for n in range(30)})).splitlines()
    head = lines.index("  iteration  measured ms  predicted ms  gain ms")
    assert [int(line.split()[0]) for line in lines[head + 1 : -2]] == [*range(11, 30, 2)]
    assert lines[-2:] == [
        "All 30 together: 30.000 ms measured, 29.625 predicted, gain 0.375.",
        "Iterations left out: 5 that change less, 15 that take the same time. --json has all.",
    ]


def test_predicted_iterations_of_several_repeats_are_told_apart() -> None:
    lines = prediction_text(_predicted({(1, 0): 2000, (1, 1): -3000})).splitlines()
    assert [line.split() for line in lines[-3:-1]] == [
        ["1", "0", "1.000", "0.998", "0.002"],
        ["1", "1", "1.000", "1.003", "-0.003"],
    ]

"""What `whatif` prints of iterations."""

from __future__ import annotations

import polars as pl
import pytest

from nsys2prv.analysis.predict.change import parse_change
from nsys2prv.analysis.predict.no_effect import Changed, why_nothing_changes
from nsys2prv.analysis.predict.whatif import PREDICTED, Prediction, WithoutHosts
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
        "Not listed: 5 that change less, 15 that take the same time. --json has all.",
    ]


def test_the_gain_is_told_in_ms_too_and_the_error_of_a_replay() -> None:
    """The gain is the difference of the two times as they are printed."""
    found = _predicted({(0, 0): 461_000, (1, 0): 461_000})
    first, second, *_ = prediction_text(found).splitlines()
    assert first.endswith(" an iteration takes 0.539 ms instead of 1.000 ms: 0.461 ms, 46.1 % less (means).")
    assert second == (
        "This is a replay of the recording, no measurement. Without changes it is off by 0.00 % at most. "
        "How well such predictions hold: docs/analysis.md (Predictions against reality)."
    )
    assert " no measurement. Without changes it is off by 1.50 % at most. How well" in (
        prediction_text(found._replace(replay_error=0.015))
    )


def test_predicted_iterations_of_several_repeats_are_told_apart() -> None:
    lines = prediction_text(_predicted({(1, 0): 2000, (1, 1): -3000})).splitlines()
    assert [line.split() for line in lines[-3:-1]] == [
        ["1", "0", "1.000", "0.998", "0.002"],
        ["1", "1", "1.000", "1.003", "-0.003"],
    ]


def test_a_single_iteration_has_no_sum() -> None:
    lines = prediction_text(_predicted({(7, 0): 2000})).splitlines()
    assert lines[-1].split() == ["7", "1.000", "0.998", "0.002"]
    assert "iterations" not in prediction_text(_predicted({(7, 0): 0}))


@pytest.mark.parametrize(
    ("gain", "alone", "both", "told"),
    [
        (0, 700_000, 400_000, True),
        (-5000, 700_000, 400_000, True),  # What the begin of an iteration gained is no loss.
        (0, 700_000, 680_000, False),  # 2 % of the iteration
        (200_000, 700_000, 400_000, False),  # More is shown than hidden.
        (100_000, 700_000, 400_000, True),
    ],
)
def test_what_busy_hosts_hide_is_told(gain: int, alone: float, both: float, told: bool) -> None:
    found = _predicted({(1, 0): gain})._replace(without_hosts=WithoutHosts(alone, both))
    line = "Busy hosts hide most of the gain. If their work took no time (host=0), an iteration would take 0.700 ms "
    assert (f"{line}without this change, and 0.400 ms with it." in prediction_text(found).splitlines()) == told
    assert "Busy hosts" not in prediction_text(found._replace(without_hosts=None))


@pytest.mark.parametrize(
    ("gain", "earlier", "told"),
    [(-5000, 10_000, True), (-6000, 10_000, False), (5000, 10_000, False), (-300, 10_000, False)],
)
def test_iterations_that_end_no_later_are_not_said_to_be_held_up(gain: int, earlier: int, told: bool) -> None:
    """Two that take 5 us longer, where the first one begins 10 us earlier."""
    found = _predicted({(1, 0): gain, (2, 0): gain})._replace(earlier_ns=earlier)
    line = (
        "Nothing gets slower: the last iteration ends no later than measured. The time is longer only because the "
        "first one begins 0.010 ms earlier."
    )
    assert (line in prediction_text(found).splitlines()) == told


def test_a_change_without_a_gain_has_a_reason() -> None:
    found = _predicted({(1, 0): 0})
    slack = "3 pieces of work change, by 2.000 ms in all that was recorded, but none on the critical path: "
    assert slack in prediction_text(found._replace(changed=Changed(3, 2_000_000)))
    assert "critical path" not in prediction_text(found._replace(changed=Changed(0, 0)))
    assert "critical path" not in prediction_text(_predicted({(1, 0): 9000})._replace(changed=Changed(3, 9000)))
    # Digits of a ms show what those of percents do not.
    little = prediction_text(_predicted({(n, 0): 20_000 * (n == 0) for n in range(50)})._replace(changed=Changed(3, 9)))
    assert "critical path" not in little
    assert little.startswith("With delay=0 an iteration takes 1.000 ms instead of 1.000 ms: no difference")
    idle = found._replace(without_effect=("delay=0",), why=(why_nothing_changes(parse_change("delay=0")),))
    assert "delay=0 changes nothing here: no host work takes longer than usual at its place by 0.1 ms" in (
        prediction_text(idle)
    )
    assert why_nothing_changes(parse_change("GEMM*1")) == "a factor of 1 leaves all times"
    assert why_nothing_changes(parse_change("rank 3=median")) == "rank 3 computes as long as the median rank"

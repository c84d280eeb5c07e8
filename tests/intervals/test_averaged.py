"""Means of held values over periods, against adding up one ns after the other."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from nsys2prv.intervals.reduction import Averages
from nsys2prv.model.frames import Samples
from nsys2prv.model.losses import Loss, Lost, Tally


def samples(time: list[int], *values: list[int | None]) -> Samples:
    names = tuple(f"m{n}" for n in range(len(values)))
    place = pl.repeat(0, len(time), dtype=pl.UInt32, eager=True)
    columns = dict(zip(names, (pl.Series(v, dtype=pl.Int64) for v in values), strict=True))
    return Samples(pl.DataFrame({"time": pl.Series(time, dtype=pl.Int64), "place": place, **columns}), names)


def averaged(frame: Samples, period: int, tally: Tally) -> Samples:
    """All samples at once."""
    averages = Averages(period)
    parts = [averages.add(frame), averages.rest(tally)]
    return Samples(pl.concat(p.data for p in parts if p is not None), frame.columns)


def test_a_sample_counts_in_every_period_that_it_reaches_into() -> None:
    tally = Tally()
    fewer = averaged(samples([100, 104, 112, 140, 141], [10, 20, 0, 7, 9], [None, 6, None, None, None]), 10, tally)
    assert fewer.data.drop("place").rows() == [
        (100, 16, 6),  # 4 ns of 10, 6 of 20
        (110, 4, 6),  # 2 ns of 20, 8 of 0
        (120, 0, 6),
        (140, 7, 6),
        (141, 9, 6),
    ]
    assert tally.dropped == {}


def test_what_is_averaged_is_counted() -> None:
    tally = Tally()
    assert averaged(samples([0, 1, 2, 3, 4], [1, 2, 3, 4, 5]), 100, tally).data.rows() == [(0, 0, 2), (4, 0, 5)]
    assert tally.dropped == {Lost(Loss.AVERAGED, (100,)): 3}


def test_means_of_more_periods_than_samples_are_no_loss() -> None:
    """A sample that lasts into the next period makes a mean there."""
    tally = Tally()
    assert averaged(samples([0, 15, 100], [1, 2, 3]), 10, tally).data["time"].to_list() == [0, 10, 20, 100]
    assert tally.dropped == {}


def test_one_sample_stays() -> None:
    tally = Tally()
    assert averaged(samples([7], [3]), 10, tally).data.rows() == [(7, 0, 3)]
    assert tally.dropped == {}


def test_the_largest_values_periods_and_times_are_numbers() -> None:
    latest, most = 2**61, 2**63 - 1
    fewer = averaged(samples([latest - 2, latest - 1, latest], [most, most, 5]), most, Tally())
    assert fewer.data["time"].to_list() == [latest - 2, latest]
    assert fewer.data["m0"].to_list() == [2**63 - 1024, 5]


known = st.one_of(st.none(), st.integers(0, 1000))


@given(st.lists(st.tuples(st.integers(1, 30), known), min_size=2, max_size=20), st.integers(1, 40))
def test_means_equal_adding_up(rows: list[tuple[int, int | None]], period: int) -> None:
    times = [sum(step for step, _ in rows[: n + 1]) for n in range(len(rows))]
    values = [value for _, value in rows]
    at: list[int | None] = []
    for n, (begin, end) in enumerate(pairwise(times)):
        held = next((v for v in reversed(values[: n + 1]) if v is not None), None)
        at += [held] * (end - begin)
    got = averaged(samples(times, values), period, Tally()).data
    assert got["time"][-1] == times[-1]
    assert got["time"].is_sorted()
    assert got["time"].is_unique().all()
    for time, mean in got.select("time", "m0").rows()[:-1]:
        inside = [v for v in at[time - times[0] :][:period] if v is not None]
        assert (mean is None) == (not inside)
        assert mean is None or abs(mean - sum(inside) / len(inside)) <= 0.5
    written = set(got["time"].to_list())
    for begin in range(times[0], times[-1], period):
        # A period that is not written has the value before.
        if begin not in written:
            inside = [*at[begin - times[0] - 1 :][: period + 1]]
            assert len(set(inside)) == 1


@given(
    st.lists(st.tuples(st.integers(1, 30), known, known), min_size=1, max_size=20),
    st.integers(1, 40),
    st.lists(st.integers(0, 20), max_size=4),
)
def test_samples_that_come_in_parts_have_the_same_means(
    rows: list[tuple[int, int | None, int | None]], period: int, borders: list[int]
) -> None:
    times = [sum(step for step, *_ in rows[: n + 1]) for n in range(len(rows))]
    data = samples(times, [a for _, a, _ in rows], [b for _, _, b in rows])
    tally, whole_tally = Tally(), Tally()
    whole = averaged(data, period, whole_tally)
    averages = Averages(period)
    cuts = [0, *sorted(min(b, len(rows)) for b in borders), len(rows)]
    parts = [averages.add(Samples(data.data[low:high], data.columns)) for low, high in pairwise(cuts)]
    parts += [rest] if (rest := averages.rest(tally)) else []
    assert pl.concat(p.data for p in parts).rows() == whole.data.rows()
    assert tally == whole_tally

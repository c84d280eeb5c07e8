"""`nsys2prv.families.device_work`: which call launched what."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys2prv.families.device_work import callers

PROCESS = 1 << 24
ENDS = (-(2**63), 2**63 - 1)
# Close together, far apart, and the least and the greatest that there are.
IDS = st.lists(st.integers(-2, 6), max_size=8) | st.lists(st.sampled_from((*ENDS, 1, 10**6)), max_size=8)


@given(st.data(), st.sampled_from(([1], [1, 2])))
def test_the_first_call_of_an_id_launched_what_has_it(data: st.DataObject, processes: list[int]) -> None:
    ids = data.draw(IDS)
    times = data.draw(st.permutations(range(len(ids))))
    process = st.sampled_from(processes)
    calls = [(data.draw(process), number, time) for number, time in zip(ids, times, strict=True)]
    wanted = [
        (data.draw(process), n) for n in data.draw(st.lists(st.sampled_from([*ids, 0, 3, *ENDS, None]), max_size=8))
    ]
    found = callers(
        pl.DataFrame(
            [(p * PROCESS, n) for p, n in wanted], {"globalPid": pl.Int64, "correlationId": pl.Int64}, orient="row"
        ),
        pl.DataFrame(
            [(p * PROCESS + 7, n, t) for p, n, t in calls],
            {"globalTid": pl.Int64, "correlationId": pl.Int64, "start": pl.Int64},
            orient="row",
        ),
    )
    first: dict[tuple[int, int | None], tuple[int | None, int | None]]
    first = {(p, n): (p * PROCESS + 7, t) for p, n, t in sorted(calls, key=lambda call: -call[2]) if n}
    assert found.rows() == [first.get(one, (None, None)) for one in wanted]


def test_ids_that_lie_close_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pl.DataFrame, "join")
    calls = pl.DataFrame({"globalTid": [PROCESS] * 2, "correlationId": [4, 5], "start": [10, 20]})
    keys = pl.DataFrame({"globalPid": [PROCESS] * 3, "correlationId": [5, 6, 4]})
    assert callers(keys, calls)["called"].to_list() == [20, None, 10]

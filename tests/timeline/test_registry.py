"""Numbers of places."""

from __future__ import annotations

import polars as pl

from nsys2prv.timeline.registry import Places


def test_lanes_of_two_streams_lead_back_to_the_first_ones() -> None:
    places = Places()
    rows = pl.DataFrame({"streamId": [7, 7, 13, 7, 13], "lane": [0, 1, 0, 2, 1]})
    found = places.streams(rows.with_columns(globalPid=1, deviceId=0, contextId=1))
    assert found.n_unique() == 5
    first = places.in_lanes(found, pl.Series([0] * 5))
    assert first.to_list() == [found[0], found[0], found[2], found[0], found[2]]
    assert places.in_lanes(first, rows["lane"]).equals(found)

"""Numbers of places."""

from __future__ import annotations

import polars as pl
import pytest

from nsys2prv.model.interning import Members, Places, distinct_of


def test_lanes_of_two_streams_lead_back_to_the_first_ones() -> None:
    places = Places()
    rows = pl.DataFrame({"streamId": [7, 7, 13, 7, 13], "lane": [0, 1, 0, 2, 1]})
    first = places.streams(rows.with_columns(globalPid=1, deviceId=0, contextId=1))
    assert first.n_unique() == 2
    found = places.in_lanes(first, rows["lane"])
    assert found.n_unique() == 5
    assert places.in_lanes(found, pl.Series([0] * 5)).equals(first)
    lanes = places.table.sort("id").select("kind", "process", "stream", "lane")[found]
    assert lanes.rows() == [("stream", 1, stream, lane) for stream, lane in rows.rows()]


def test_threads_are_told_apart_by_process_and_number() -> None:
    """What has no globalTid is a place of its own."""
    places = Places()
    process = 5 << 24
    found = places.threads(pl.Series([process + 7, None, process + 8, process + 7], dtype=pl.Int64))
    rows = places.table.sort("id").select("kind", "process", "thread")[found].rows()
    assert rows == [("thread", process, 7), ("thread", None, None), ("thread", process, 8), ("thread", process, 7)]
    assert places.threads(pl.Series([process + 8])).item() == found[2]


def test_of_a_member_the_most_counts_that_any_of_its_rows_says() -> None:
    members = Members()
    columns = ("process", "communicator", "rank", "ranks", "highest")
    schema = {c: pl.String if c == "communicator" else pl.Int64 for c in columns}
    said = [
        [(1, "a", None, None, 2), (1, "a", 0, None, 3), (2, "a", None, 4, None), (1, "a", None, None, 1)],
        [(2, "a", 1, None, None), (1, "a", None, 4, 0)],
    ]
    found = [members.ids(pl.DataFrame(rows, schema=schema, orient="row")).to_list() for rows in said]
    assert found == [[0, 0, 1, 0], [1, 0]]
    facts = members.table.select("id", "process", "communicator", "rank", "ranks", "highest")
    assert facts.rows() == [(0, 1, "a", 0, 4, 3), (1, 2, "a", 1, 4, None)]


FAR = 2**63 - 1


@pytest.mark.parametrize(
    "values", [[], [5], [7, 7], [3, -1, 3, 2, -1], [FAR - 1, FAR, FAR], [-FAR, 0, FAR, 0], [1, None, 1], [None, None]]
)
def test_distinct_integers_and_where_each_row_has_its_own(values: list[int | None]) -> None:
    """Close together, far apart, and with nulls."""
    column = pl.Series("c", values, dtype=pl.Int64)
    distinct, at = distinct_of(column)
    assert (at.dtype, distinct.gather(at).to_list()) == (pl.UInt32, values)
    assert set(distinct) == set(values)
    assert distinct.is_unique().all()

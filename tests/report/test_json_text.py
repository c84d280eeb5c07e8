"""JSON texts as columns, those that are none too."""

import polars as pl
import pytest

from nsys2prv.report.json_text import decoded

KIND = pl.Struct({"Name": pl.String(), "Fields": pl.List(pl.Struct({"Name": pl.String()}))})
SOUND = '{"Name": 5, "Fields": [{"Name": "a"}]}'


@pytest.mark.parametrize("text", [None, "", "\n", "{", "[]", "7", '{"Fields": 5}', "[" * 9000, '{"Name":\n"a"}\n{}'])
def test_a_text_that_is_no_such_object_is_null_and_spoils_no_other(text: str | None) -> None:
    found = decoded(pl.Series([SOUND, text, SOUND], dtype=pl.String()), KIND).to_list()
    assert found == [{"Name": "5", "Fields": [{"Name": "a"}]}, None, {"Name": "5", "Fields": [{"Name": "a"}]}]


def test_an_object_may_take_several_lines() -> None:
    assert decoded(pl.Series(['{"Name":\r\n "a"}\n']), KIND).to_list() == [{"Name": "a", "Fields": None}]


def test_a_text_of_several_objects_is_bad_and_moves_no_other() -> None:
    kind = pl.Struct({"a": pl.Int64()})
    several = '{"a":1},{"a":2}'
    assert decoded(pl.Series([several, '{"a":3}']), kind).to_list() == [None, {"a": 3}]
    assert decoded(pl.Series([several, "bad", '{"a":5}']), kind).to_list() == [None, None, {"a": 5}]

"""Tables without rows, as `nsys export --lazy false` writes them."""

from pathlib import Path

import polars as pl
from exports import export

import nsys2prv
from nsys2prv.report import schema


def test_columns_have_their_types_without_rows(tmp_path: Path) -> None:
    report = export(tmp_path / "empty.sqlite", GENERIC_EVENTS=("timestamp typeId data", []))
    with nsys2prv.open_report(report) as opened:
        assert opened.table(schema.GENERIC_EVENTS).schema == {
            "timestamp": pl.Int64,
            "rawTimestamp": pl.Int64,
            "typeId": pl.Int64,
            "data": pl.String,
        }
        assert opened.strings.schema == {"id": pl.Int64, "text": pl.String}

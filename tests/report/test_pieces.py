"""Tables that are read in pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nsys2prv.report import schema
from nsys2prv.report.report import open_report

ROWS = 10


def test_a_table_of_the_stream_format_is_in_memory_while_its_pieces_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read once, the needed columns alone, with the first piece, and forgotten after the last one."""
    folder = tmp_path / "r_arwdir"
    folder.mkdir()
    columns = {c: list(range(ROWS)) for c in ("timestamp", "typeId", "metricId", "value")}
    pl.DataFrame(columns).write_ipc_stream(folder / "GPU_METRICS.arrow")
    pl.DataFrame({"name": [], "value": []}).write_ipc_stream(folder / "META_DATA_EXPORT.arrow")
    opened: list[list[str]] = []
    read = pl.read_ipc_stream

    def reading(file: Path, **how: Any) -> pl.DataFrame:
        found = read(file, **how)
        if how.get("n_rows") != 0:
            opened.append(found.columns)
        return found

    monkeypatch.setattr(pl, "read_ipc_stream", reading)
    with open_report(folder) as report:
        pieces = report.pieces(schema.METRICS, ("timestamp", "value"), 2, {"value": range(1, ROWS)})
        # To count its rows takes one column.
        assert (len(pieces), opened) == (ROWS // 2, [["timestamp"]])
        found = pl.concat(piece() for piece in pieces)
        assert opened == [["timestamp"], ["timestamp", "value"]]
        # A piece that is read again opens the table again.
        assert pieces[0]().rows() == [(1, 1)]
        assert len(opened) == 3
    assert found.rows() == [(n, n) for n in range(1, ROWS)]

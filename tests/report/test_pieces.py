"""Tables that are read in pieces."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from nsys2prv.report import schema
from nsys2prv.report.report import open_report

ROWS = 10


def test_a_table_of_the_stream_format_is_in_memory_for_one_piece_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "r_arwdir"
    folder.mkdir()
    columns = {c: list(range(ROWS)) for c in ("timestamp", "typeId", "metricId", "value")}
    pl.DataFrame(columns).write_ipc_stream(folder / "GPU_METRICS.arrow")
    pl.DataFrame({"name": [], "value": []}).write_ipc_stream(folder / "META_DATA_EXPORT.arrow")
    opened = []
    read = pl.read_ipc_stream
    monkeypatch.setattr(pl, "read_ipc_stream", lambda file: (opened.append(file), read(file))[1])
    with open_report(folder) as report:
        pieces = report.pieces(schema.METRICS, ("timestamp", "value"), 2)
        before = len(opened)
        assert (len(pieces), before < len(pieces)) == (ROWS // 2, True)
        found = pl.concat(piece() for piece in pieces)
    assert len(opened) == before + len(pieces)
    assert found.rows() == [(n, n) for n in range(ROWS)]

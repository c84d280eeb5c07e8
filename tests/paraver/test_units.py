"""Values that are read from a trace are in the units of their types' labels."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import nsys2prv
from nsys2prv.model.event_types import MEMORY_BYTES, MEMORY_THROUGHPUT

SAXPY = Path(__file__).parents[2] / "sample_reports/single/saxpy.sqlite"


def test_throughput_is_in_mb_a_second(tmp_path: Path) -> None:
    chosen = nsys2prv.Selection(families=("memory",))
    result = nsys2prv.translate(SAXPY, tmp_path / "trace", selection=chosen)
    assert result.prv is not None
    trace = nsys2prv.read_prv(result.prv)
    assert trace.types[MEMORY_THROUGHPUT.number].endswith("[MB/s]")
    assert trace.precision[MEMORY_THROUGHPUT.number] == 6
    rate, size = (
        trace.events.filter((pl.col("type") == kind.number) & (pl.col("value") > 0)).row(0, named=True)
        for kind in (MEMORY_THROUGHPUT, MEMORY_BYTES)
    )
    interval = trace.intervals(MEMORY_BYTES.number).row(0, named=True)
    assert rate["time"] == size["time"] == interval["start"]
    # 1 MB/s is 0.001 bytes a ns.
    assert rate["scaled"] == pytest.approx(size["value"] / (interval["end"] - interval["start"]) * 1000, abs=1e-6)
    assert rate["value"] == pytest.approx(rate["scaled"] * 1e6)
    assert interval["scaled"] == interval["value"] == size["scaled"] == size["value"]

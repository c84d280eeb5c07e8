"""The small inputs that once went wrong, each with the right result that their README names."""

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from runs import SHARED, Command

import nsys2prv

CASES = SHARED / "cases"

pytestmark = [pytest.mark.shared, pytest.mark.skipif(not CASES.is_dir(), reason="needs the shared cases")]


def translated(case: str, output: Path, **chosen: str) -> nsys2prv.Translation:
    selection = nsys2prv.Selection(**chosen)  # type: ignore[arg-type]
    return nsys2prv.translate(CASES / f"{case}.sqlite", output, selection=selection)


def trace_of(made: nsys2prv.Translation) -> nsys2prv.Trace:
    assert made.prv is not None
    return nsys2prv.read_prv(made.prv)


def test_gpu_metrics_rawtimestamp(output: Path) -> None:
    made = translated("gpu-metrics-rawtimestamp", output)
    assert (made.dropped, made.defects) == ({}, ())
    trace = trace_of(made)
    (number,) = (number for number, label in trace.types.items() if label == "SM Active")
    samples = trace.events.filter(pl.col("type") == number).sort("time").select("time", "value")
    with closing(sqlite3.connect(CASES / "gpu-metrics-rawtimestamp.sqlite")) as report:
        recorded = [time for (time,) in report.execute("SELECT rawTimestamp FROM GENERIC_EVENTS ORDER BY rawTimestamp")]
    # A call at this time is the first event. A value holds until the next one.
    times = pl.DataFrame({"time": [time - 212221855 for time in recorded]})
    held = times.join_asof(samples, on="time")["value"]
    assert (len(recorded), recorded[0], recorded[-1], held.null_count()) == (300, 330055879, 359956016, 0)
    assert round(held.mean(), 2) == 70.46  # type: ignore[arg-type, call-overload]

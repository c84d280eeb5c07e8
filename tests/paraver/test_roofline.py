"""Rates of operations and DRAM bytes by class in Paraver are those of `analyze`."""

from __future__ import annotations

from pathlib import Path

import paramedir
import pytest

import nsys2prv
from nsys2prv.paraver.cfg import CFGS

DATA = Path(__file__).parents[1] / "data" / "ncu"
OPTIONS = nsys2prv.RunOptions(ncu=(nsys2prv.ProfileFile(DATA / "steps.csv"),))


@pytest.mark.paraver
@pytest.mark.parametrize(("name", "column"), [("operation_rate", "flop"), ("dram_rate", "bytes")])
def test_rates_by_class_are_those_of_analyze(name: str, column: str, tmp_path: Path) -> None:
    """Each kernel by its time in the run, in millions a second."""
    made = nsys2prv.translate(DATA / "gpt.sqlite", tmp_path / "trace", options=OPTIONS)
    assert made.prv is not None
    output = paramedir.run(made.prv, [c for c in CFGS if c.name == name], tmp_path / "out")
    assert output.complaints == ""
    found = nsys2prv.analyze(DATA / "gpt.sqlite", options=OPTIONS).ncu
    assert found is not None
    rates = {of: 1e3 * value / ns for of, value, ns in found.roofline.select("class", column, "ns").rows() if value}
    shown = {of: value for (_, of), value in output.table(f"views/{name}").items()}
    # Operations and bytes are whole numbers in the trace.
    assert shown == pytest.approx(rates, rel=1e-5)
    assert len(shown) > 10

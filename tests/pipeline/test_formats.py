"""One report in every format of export gives one trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsys2prv import read_prv, translate

DATA = Path(__file__).parents[1] / "data"
SQLITE = DATA / "repeat-capture" / "rep.1.sqlite"


@pytest.mark.parametrize("export", ["rep.1_arwdir", "rep.1_pqtdir"])
def test_columnar_exports_give_the_bytes_of_sqlite(export: str, tmp_path: Path) -> None:
    for name, report in (("sqlite", SQLITE), ("columnar", DATA / "formats" / export)):
        translate(report, tmp_path / name)
    for ending in (".prv", ".pcf", ".row"):
        assert (tmp_path / f"columnar{ending}").read_bytes() == (tmp_path / f"sqlite{ending}").read_bytes()


def test_captures_of_one_session_are_one_task(tmp_path: Path) -> None:
    result = translate(SQLITE.parent, tmp_path / "trace")
    trace = read_prv(tmp_path / "trace.prv")
    assert (result.reports, result.tasks) == (3, 1)
    assert trace.names["THREAD"] == ("repeat 429", "CUDA-D0.S13")
    assert trace.intervals(63000006).height == 60

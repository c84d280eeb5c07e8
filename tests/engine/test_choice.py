"""Every family by itself, and those that share what is read."""

from pathlib import Path

import pytest
from exports import real

import nsys2prv
from nsys2prv.activities import FAMILIES


@pytest.mark.parametrize("family", [f.name for f in FAMILIES if f.draws])
@pytest.mark.parametrize("report", ["single/graph-node", "single/openmp", "single/threads-cpu-sampling"])
def test_a_family_alone_draws_its_rows(family: str, report: str, tmp_path: Path) -> None:
    path = real(report, tmp_path)
    chosen = next(f for f in FAMILIES if f.name == family)
    with nsys2prv.open_report(path) as opened:
        if not chosen.rows_in(opened):
            pytest.skip("none in this report")
    # CUDA calls beside it: they share the table of calls with device activity, which needs other columns of it.
    drawn = nsys2prv.translate(
        path,
        tmp_path / "out",
        selection=nsys2prv.Selection((family, "cuda_api")),
        options=nsys2prv.RunOptions(every_thread=True),
        jobs=1,
    )
    assert drawn.rows[family] > 0


def test_what_makes_no_row_is_nothing_by_itself(tmp_path: Path) -> None:
    report = real("single/openmp", tmp_path)
    with pytest.raises(nsys2prv.Nsys2prvError, match="nothing to draw: the chosen families"):
        nsys2prv.translate(report, tmp_path / "out", selection=nsys2prv.Selection(("overhead",)), jobs=1)

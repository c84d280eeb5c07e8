"""Choices of families that leave nothing to draw."""

from pathlib import Path

import pytest
from exports import real

import nsys2prv


def test_what_makes_no_row_is_nothing_by_itself(tmp_path: Path) -> None:
    report = real("single/openmp", tmp_path)
    with pytest.raises(nsys2prv.Nsys2prvError, match="nothing to draw: the chosen families"):
        nsys2prv.translate(report, tmp_path / "out", selection=nsys2prv.Selection(("overhead",)), jobs=1)

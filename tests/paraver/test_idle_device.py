"""A device on which nothing ran counts, in `analyze` and in the cfgs, by the rank that has it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import paramedir
import pytest

import nsys2prv
from nsys2prv.analysis.question import Question
from nsys2prv.paraver.cfg import CFGS

WORK = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET")]
NAMES = ("parallel_efficiency", "parallel_efficiency_nccl_useful", "device_busy")


@pytest.fixture
def idle_last(mpi_halo: list[Path], tmp_path: Path) -> list[Path]:
    """mpi-halo, where the last rank has a context on its GPU and makes its calls, and nothing runs."""
    idle = tmp_path / mpi_halo[-1].name
    shutil.copyfile(mpi_halo[-1], idle)
    with closing(sqlite3.connect(idle)) as db:
        for name in WORK:
            db.execute(f"DELETE FROM {name}")
        db.commit()
    return [*mpi_halo[:-1], idle]


def test_an_idle_device_counts_in_analyze(idle_last: list[Path]) -> None:
    found = nsys2prv.analyze(idle_last).efficiency
    assert [t.device.rank for t in found.devices] == [0, 1, 2, 3]
    assert found.devices[3][1:] == (0, 0)
    assert found.load_balance <= 0.75


@pytest.mark.paraver
def test_an_idle_device_counts_in_the_cfgs_as_in_analyze(idle_last: list[Path], tmp_path: Path) -> None:
    paramedir.program()
    prv = nsys2prv.translate(idle_last, tmp_path / "trace").prv
    assert prv is not None
    output = paramedir.run(prv, [c for c in CFGS if c.folder == "analysis" and c.name in NAMES], tmp_path / "out")
    found = {n: nsys2prv.analyze(idle_last, question=Question(nccl=n)).efficiency for n in ("communication", "useful")}  # type: ignore[arg-type]
    columns = {"device_busy": "Busy [%]"}
    totals = {n: output.totals(f"analysis/{n}", columns.get(n, "Parallel efficiency [%]")) for n in NAMES}
    for name, nccl in zip(NAMES, found, strict=False):
        assert totals[name]["Average"] == pytest.approx(100 * found[nccl].parallel, rel=1e-9)
        assert totals[name]["Avg/Max"] == pytest.approx(found[nccl].load_balance, rel=1e-9)
    assert totals["device_busy"]["Maximum"] == pytest.approx(100 * found["useful"].orchestration, rel=1e-9)

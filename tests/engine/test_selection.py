"""Any choice of families draws of each what all of them together draw of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

from nsys2prv.activities import FAMILIES
from nsys2prv.engine.extract import extract
from nsys2prv.engine.task import ExtractTask
from nsys2prv.merge.summary import Summary

SAMPLES = Path(__file__).parents[2] / "sample_reports"
NAMES = [f.name for f in FAMILIES]


def _look(report: str, families: Sequence[str]) -> Summary:
    return extract(ExtractTask(SAMPLES / report, tuple(families), None, "look"))


@pytest.mark.parametrize("report", ["single/saxpy.sqlite", "single/graph-node.sqlite", "mpi-halo/mpi-halo.0.sqlite"])
def test_every_family_and_every_two_draw_what_all_do(report: str) -> None:
    all_of_them = _look(report, NAMES).counts
    present = [n for n in NAMES if all_of_them[n].rows]
    for chosen in [*combinations(present, 1), *combinations(present, 2)]:
        assert _look(report, chosen).counts == {name: all_of_them[name] for name in chosen}


def test_what_is_not_chosen_is_counted() -> None:
    """Kernels and NCCL's are of one table, NCCL's calls of NVTX's. Numbers are those of plain SQL."""
    assert _look("gpt-ddp/gpt-ddp.0.0.sqlite", ["kernels"]).off == {
        "cuda_api": 5127,
        "nccl": 136,
        "memory": 424,
        "synchronization": 592,
        "event_waits": 352,
        "nvtx": 68,
        "osrt": 22247,
        "os_callers": 466,
        "overhead": 8,
        "gpu_metrics": 218760,
    }

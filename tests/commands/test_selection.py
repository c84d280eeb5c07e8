"""Any choice of families draws of each what all of them together draw of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from runs import SAMPLES

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.source import Source
from nsys2prv.pipeline.extract import extract as extract_module
from nsys2prv.pipeline.extract.extract import extract
from nsys2prv.pipeline.extract.report_part import ReportPart, Storage
from nsys2prv.run.report_summary import Summary

NAMES = [f.name for f in FAMILIES]


def _look(report: str, families: Sequence[str]) -> Summary:
    return extract(ReportPart(SAMPLES / report, tuple(families), Storage("look")))


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
        "os_callers": 58,
        "overhead": 8,
        "gpu_metrics": 218760,
    }


def test_a_family_without_tables_is_not_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most reports lack most tables, and work on empty ones takes its time."""
    worked = []

    def watched(family: Family) -> Family:
        def frames(source: Source, state: object) -> Frames[object]:
            worked.append(family.name)
            return family.frames(source, state)

        return replace(family, frames=frames)

    monkeypatch.setattr(extract_module, "FAMILIES", tuple(map(watched, FAMILIES)))
    counts = _look("single/saxpy.sqlite", NAMES).counts
    assert list(counts) == NAMES
    assert not {"mpi", "openmp", "openacc", "ucx", "network"} & set(worked)
    assert {name for name in NAMES if counts[name].rows} <= set(worked)

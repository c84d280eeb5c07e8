"""Rows that name a text which the report lacks are drawn by its number, and counted."""

from pathlib import Path

import pytest
from exports import MAIN, PROCESS, Drawn, export

CALL = "start end globalTid nameId"
CUDA = ("start end globalTid nameId correlationId", [(0, 5, MAIN, "cudaLaunchKernel", 1)])
TOLD = "whose {} is not among the report's texts (drawn by its number)"


@pytest.mark.parametrize("family", ["cudnn", "osrt"])
def test_calls_without_a_text_are_named_by_its_number(family: str, tmp_path: Path) -> None:
    """Those without any name are counted elsewhere: nothing says that a text is missing."""
    table, kind = {"cudnn": ("CUDNN_EVENTS", 70000221), "osrt": ("OSRT_API", 70000003)}[family]
    rows = [(0, 10, MAIN, "f"), (20, 30, MAIN, 77), (40, 50, MAIN, 77), (60, 70, MAIN, 78)]
    drawn = Drawn(export(tmp_path / "r.sqlite", **{table: (CALL, rows)}), family)
    assert [label for *_, label in drawn.intervals(kind)] == ["f", "string 77", "string 77", "string 78"]
    assert drawn.dropped(family) == {TOLD.format("nameId"): 3}


def test_kernels_ranges_and_mpi_calls(tmp_path: Path) -> None:
    report = export(
        tmp_path / "r.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=CUDA,
        CUPTI_ACTIVITY_KIND_KERNEL=(
            "start end deviceId contextId streamId correlationId globalPid shortName demangledName",
            [(10, 20, 0, 1, 7, 1, PROCESS, 90, "k<int>"), (30, 40, 0, 1, 7, 1, PROCESS, "k", 91)],
        ),
        NVTX_EVENTS=(
            "start end eventType text textId globalTid",
            [(0, 50, 59, None, 92, MAIN), (5, 45, 59, "told", None, MAIN), (6, 7, 59, None, None, MAIN)],
        ),
        MPI_OTHER_EVENTS=("start end globalTid textId", [(60, 70, MAIN, 93), (80, 90, MAIN, "MPI_Init")]),
    )
    drawn = Drawn(report, "cuda_api", "kernels", "nvtx", "mpi")
    assert drawn.dropped("kernels") == {TOLD.format("shortName"): 1, TOLD.format("demangledName"): 1}
    assert drawn.dropped("nvtx") == {TOLD.format("textId"): 1}
    assert drawn.dropped("mpi") == {TOLD.format("textId"): 1}
    assert [label for *_, label in drawn.intervals(9600)][:2] == ["string 92", "told"]


def test_an_empty_text_is_not_missing(tmp_path: Path) -> None:
    rows = [(0, 10, MAIN, ""), (20, 30, MAIN, "f")]
    drawn = Drawn(export(tmp_path / "r.sqlite", OSRT_API=(CALL, rows)), "osrt")
    assert len(drawn.intervals(70000003)) == 2
    assert not drawn.dropped("osrt")

"""Calls of libraries on host threads, of which there is no real report: the tables are those of the documentation."""

from pathlib import Path

import pytest
from exports import MAIN, Drawn, export, tid

ROW = "thread 100"
CALLS = "start end globalTid nameId"


@pytest.mark.parametrize(("family", "table", "kind"), [
    ("cublas", "CUBLAS_EVENTS", 70000220),
    ("cudnn", "CUDNN_EVENTS", 70000221),
])  # fmt: skip
def test_calls_by_name_from_documentation(family: str, table: str, kind: int, tmp_path: Path) -> None:
    calls = [(100, 200, MAIN, "create"), (120, 150, MAIN, "inner"), (300, 300, tid(101), "run"), (1, 2, None, "lost")]
    drawn = Drawn(export(tmp_path / "calls.sqlite", **{table: (CALLS, calls)}), family, begin=100)
    assert drawn.intervals(kind) == [
        (ROW, 100, 200, "create"),
        (ROW, 120, 150, "inner"),
        ("thread 101", 300, 301, "run"),
    ]
    assert drawn.dropped(family) == {"without a thread": 1}


def test_ucx_messages_from_documentation(tmp_path: Path) -> None:
    """Size and peer are of submissions and progress; a call without an end is a point; a worker's identity is long."""
    peer = 2**62 + 5
    message = "start end globalTid textId packedSize peerWorkerUid"
    report = export(
        tmp_path / "ucx.sqlite",
        UCP_WORKERS=("globalTid workerUid", [(MAIN, 7)]),
        UCP_EVENTS=("start end globalTid textId", [(100, 110, MAIN, "ucp_init"), (120, None, MAIN, None)]),
        UCP_SUBMIT_EVENTS=(message, [(200, 210, MAIN, "ucp_tag_send_nbx", 4096, peer)]),
        UCP_PROGRESS_EVENTS=(message, [(300, 350, MAIN, "ucp_tag_recv_nbx", 64, None)]),
    )
    drawn = Drawn(report, "ucx")
    assert drawn.intervals(70000222) == [
        (ROW, 100, 110, "ucp_init"),
        (ROW, 120, 121, "(unnamed)"),
        (ROW, 200, 210, "ucp_tag_send_nbx"),
        (ROW, 300, 350, "ucp_tag_recv_nbx"),
    ]
    assert drawn.intervals(70000223) == [(ROW, 200, 210, 4096), (ROW, 300, 350, 64)]
    assert drawn.intervals(70000224) == [(ROW, 200, 210, f"worker {peer}")]
    assert drawn.dropped("ucx") == {"without an end (drawn 1 ns long)": 1}


def test_openacc_constructs_from_documentation(tmp_path: Path) -> None:
    """Named with file and line; a launch within the construct; attributes of value 0 are not written."""
    where = "start end globalTid nameId srcFile lineNo"
    report = export(
        tmp_path / "openacc.sqlite",
        CUPTI_ACTIVITY_KIND_OPENACC_OTHER=(
            where,
            [(100, 900, MAIN, "Compute Construct", "heat.f90", 12), (950, 960, MAIN, "Wait", None, None)],
        ),
        CUPTI_ACTIVITY_KIND_OPENACC_DATA=(
            f"{where} bytes varName",
            [(110, 200, MAIN, "Enqueue Upload", "heat.f90", 12, 1024, "a")],
        ),
        CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH=(
            f"{where} numGangs numWorkers vectorLength kernelName",
            [(300, 400, MAIN, "Enqueue Launch", "heat.f90", 14, 80, 0, 128, "heat_14_gpu")],
        ),
    )
    drawn = Drawn(report, "openacc")
    other, data, launch, size = 66000000, 66000001, 66000002, 66300001
    variable, kernel, gangs, workers, vector = range(66000004, 66000009)
    assert drawn.intervals(other) == [(ROW, 100, 900, "Compute Construct@heat.f90:12"), (ROW, 950, 960, "Wait")]
    assert drawn.intervals(data) == [(ROW, 110, 200, "Enqueue Upload@heat.f90:12")]
    assert drawn.intervals(size) == [(ROW, 110, 200, 1024)]
    assert drawn.intervals(variable) == [(ROW, 110, 200, "a")]
    assert drawn.intervals(launch) == [(ROW, 300, 400, "Enqueue Launch@heat.f90:14")]
    assert drawn.intervals(kernel) == [(ROW, 300, 400, "heat_14_gpu")]
    assert (drawn.intervals(gangs), drawn.intervals(workers)) == ([(ROW, 300, 400, 80)], [])
    assert drawn.intervals(vector) == [(ROW, 300, 400, 128)]

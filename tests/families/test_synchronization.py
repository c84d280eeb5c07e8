"""CUDA synchronisation: what a thread waits for."""

from pathlib import Path

from exports import MAIN, PID, PROCESS, Drawn, export

import nsys2prv


def test_a_stream_wait_without_an_event_is_a_stream_synchronize(tmp_path: Path) -> None:
    """CUPTI gives cudaStreamSynchronize the type of cudaStreamWaitEvent; an older export says nothing of events."""
    none = 2**32 - 1
    records = [(100, 200, 2, none, none), (300, 310, 2, 5, 1), (400, 410, 2, None, None), (500, 510, 4, none, none)]
    report = export(
        tmp_path / "waits.sqlite",
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=(
            "start end globalPid correlationId syncType eventId eventSyncId",
            [(start, end, PROCESS, n, *what) for n, (start, end, *what) in enumerate(records)],
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start end globalTid nameId correlationId",
            [(start, end, MAIN, "call", n) for n, (start, end, *_) in enumerate(records)],
        ),
    )
    assert [(start, label) for _, start, _, label in Drawn(report, "synchronization").intervals(70000004)] == [
        (100, "Stream synchronize"),
        (300, "Stream wait event"),
        (400, "Stream wait event"),
        (500, "Context synchronize"),
    ]


def test_a_context_synchronize_waits_for_the_streams_of_its_context(tmp_path: Path) -> None:
    """Its record names no stream of it, and may name another device."""
    none = 2**32 - 1
    report = export(
        tmp_path / "contexts.sqlite",
        PROCESSES=("globalPid pid name", [(PROCESS, PID, "app")]),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            "start end globalPid deviceId contextId streamId correlationId shortName",
            [(100 + n, 200, PROCESS, n, 1 + n, 7, n, "kernel") for n in (0, 1)],
        ),
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=(
            "start end globalPid deviceId contextId streamId correlationId syncType eventId eventSyncId",
            [(300 + n, 310, PROCESS, 0, context, none, n, 4, none, none) for n, context in ((2, 1), (3, 2), (4, 9))],
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start end globalTid nameId correlationId",
            [(n, n + 1, MAIN, "call", n) for n in range(5)],
        ),
    )
    run = nsys2prv.analyze(report).run
    assert [run.row_labels[row] if row < len(run.row_labels) else None for row in run.waits["stream"]] == [
        "CUDA-D0.S7",
        "CUDA-D1.S7",
        None,
    ]

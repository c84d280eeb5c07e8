"""CUDA synchronisation: what a thread waits for."""

from pathlib import Path

from exports import MAIN, PROCESS, Drawn, export


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

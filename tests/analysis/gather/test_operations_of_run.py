"""The calls for which hosts and streams may wait in a chosen time were made in it, or some time before."""

from __future__ import annotations

from pathlib import Path

from exports import MAIN, PROCESS, export

import nsys2prv
from nsys2prv.commands.analyze import open_run
from nsys2prv.model.limits import Limits

SECOND = 1_000_000_000


def test_calls_of_the_last_ten_seconds_before_a_chosen_time_are_known(tmp_path: Path) -> None:
    """The host waits once a second for half a minute, and then works until the kernel of the chosen time."""
    begins = [n * SECOND for n in range(1, 31)]
    calls = [(t, t + 100, MAIN, "cudaStreamSynchronize", n) for n, t in enumerate(begins, 1)]
    report = export(
        tmp_path / "waits.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=(
            "start end deviceId contextId streamId globalPid shortName correlationId",
            [(32 * SECOND, 33 * SECOND, 0, 1, 7, PROCESS, "gemm", 0)],
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId correlationId", calls),
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=(
            "start end globalPid correlationId syncType deviceId contextId streamId",
            [(t, t + 100, PROCESS, n, 3, 0, 1, 7) for n, t in enumerate(begins, 1)],
        ),
    )
    execution = nsys2prv.Execution(jobs=1, limits=Limits(batch_rows=1))
    # Times of a trace count from the first wait on.
    begin = 31 * SECOND
    with open_run(report, nsys2prv.Selection(time=(begin, begin + SECOND)), execution=execution) as part:
        assert part.waits["time"].to_list() == list(range(begin - 10 * SECOND, 30 * SECOND, SECOND))

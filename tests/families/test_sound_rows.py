"""Rows without a time or a value that their table requires are left out, and counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from exports import PROCESS, Drawn, export

DEVICE = "start end deviceId contextId streamId correlationId globalPid"


@pytest.mark.parametrize("starts", [(None, ""), (0, ""), (0, 0)], ids=["texts", "one at zero", "all at zero"])
def test_copies_of_which_none_has_a_time_are_left_out(starts: tuple[object, object], tmp_path: Path) -> None:
    """CUPTI writes 0 for a time that it does not have; what is no number is no time either."""
    copies = [(start, 0, 0, 1, 7, n, PROCESS, 8, 1) for n, start in enumerate(starts)]
    report = export(
        tmp_path / "r.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=(f"{DEVICE} shortName", [(100, 200, 0, 1, 7, 9, PROCESS, "k")]),
        CUPTI_ACTIVITY_KIND_MEMCPY=(f"{DEVICE} bytes copyKind", copies),
    )
    drawn = Drawn(report, "kernels", "memory", begin=100)
    assert drawn.dropped("memory") == {"without a time": 2}
    assert drawn.intervals(63000001) == []
    assert drawn.intervals(63000006) == [("CUDA-D0.S7", 100, 200, "k")]

"""What `inspect` says of the times of a report."""

from pathlib import Path

import pytest
from exports import MAIN, export

from nsys2prv.commands.inspect import inspect

CALLS = ("start end globalTid nameId", [(100, 900, MAIN, "f"), (200, 300, MAIN, "g")])
RANGES = ("start end eventType text globalTid", [(50, 2000, 59, "r", MAIN), (60, None, 59, "open", MAIN)])
DOMAIN = (-5000, None, 75, "domain", MAIN)


@pytest.mark.parametrize(
    ("ranges", "span"),
    [
        ((RANGES[0], []), (100, 900)),
        (RANGES, (50, 2000)),
        ((RANGES[0], [RANGES[1][1], DOMAIN]), (60, 900)),
        ((RANGES[0], [DOMAIN]), (100, 900)),
    ],
    ids=["calls", "a long range", "an open range", "a name of a domain"],
)
def test_the_span_ends_at_the_last_end(
    ranges: tuple[str, list[tuple[object, ...]]], span: tuple[int, int], tmp_path: Path
) -> None:
    report = export(tmp_path / "r.sqlite", CUDNN_EVENTS=CALLS, NVTX_EVENTS=ranges)
    (found,), _ = inspect([report])
    assert (found.first_ns, found.last_ns) == span

"""Category, color and payload of NVTX ranges and marks (seen in a real report: nsys 2023.4.4)."""

from __future__ import annotations

from pathlib import Path

import pytest
from exports import MAIN, PROCESS, Drawn, export, in_parquet

from nsys2prv.families.columns_read import read_columns
from nsys2prv.families.nvtx import nvtx, projection
from nsys2prv.families.source import Source
from nsys2prv.families.source_tables import SourceTables
from nsys2prv.model import event_types as types
from nsys2prv.model.frames import Intervals
from nsys2prv.model.losses import Loss
from nsys2prv.pipeline.extract.extract import extract
from nsys2prv.pipeline.extract.report_part import ReportPart, Storage, Wanted
from nsys2prv.report.report import open_report

REPORT = "single/nvtx-attributes.sqlite"
RED, BLUE, GREEN = 0xFF0000, 0x0000FF, 0x00FF00


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # Category 1 is `phase` in the default domain and `inner` in another; 9 has no name.
        (
            types.NVTX_CATEGORY,
            ["phase", "inner", "phase", "inner", "phase", "inner", "phase", "outer", "category 9"],
        ),
        (types.NVTX_COLOR, [RED, BLUE, RED, BLUE, RED, BLUE, GREEN, 0x123456]),
        (types.NVTX_PAYLOAD, [-5, 1_000_000_002, 2_000_000_009, 7]),
        (types.NVTX_PAYLOAD_REAL, [2500, 5000, 7500, -3_500_000]),
    ],
)
def test_attributes_in_order_of_time(translated, kind, expected):
    _, trace = translated(REPORT, "nvtx")
    column = "label" if kind.labelled else "value"
    assert trace.intervals(kind.number).sort("start")[column].to_list() == expected


def test_payload_that_no_signed_number_holds_is_counted(translated):
    result, _ = translated(REPORT, "nvtx")
    assert result.dropped["nvtx"] == {"a payload above 2**63 (the range is drawn without it)": 1}
    assert result.rows["nvtx"] == 10


def test_ranges_without_attributes_have_none(translated):
    _, trace = translated("gpt-ddp", "nvtx")
    assert not {t.number for t in (types.NVTX_CATEGORY, types.NVTX_COLOR, types.NVTX_PAYLOAD)} & set(trace.types)


def test_what_a_range_lacks_is_told(tmp_path: Path) -> None:
    """No thread; an end before the begin, or none, of a call of NCCL's too."""
    rows = [
        (10, 20, 59, "range", None, 0),
        (5, 5, 75, "NCCL", MAIN, 1),
        (30, 25, 59, "ncclAllReduce", MAIN, 1),
        (40, None, 59, "ncclBroadcast", MAIN, 1),
    ]
    report = export(tmp_path / "r.sqlite", NVTX_EVENTS=("start end eventType text globalTid domainId", rows))
    drawn = Drawn(report, "nccl", "nvtx")
    assert drawn.dropped("nccl") == {Loss.NEGATIVE.text: 1, Loss.STILL_OPEN.text: 1}
    assert drawn.dropped("nvtx")[Loss.ROW_OF_NO_THREAD.text] == 1


def test_an_open_range_is_drawn_to_the_end_of_the_last_event(tmp_path: Path) -> None:
    """Which began before others. What is no time ends nothing."""
    ranges = [(10, None, 59, "step", MAIN), (20, None, 60, "phase", MAIN), (30, None, 34, "mark", MAIN)]
    report = export(
        tmp_path / "r.sqlite",
        NVTX_EVENTS=("start end eventType text globalTid", ranges),
        OSRT_API=("start end globalTid nameId", [(15, 900, MAIN, "long"), (40, 2**62, MAIN, "endless")]),
    )
    drawn = Drawn(report, "nvtx", "osrt")
    found = [row[1:3] for kind in (9600, 9004, 70000005) for row in drawn.intervals(kind)]
    assert found == [(10, 900), (20, 900), (30, 31)]
    for path in (report, in_parquet(report, tmp_path)):
        for name, span in (("step", (10, 900)), ("phase", (20, 900)), ("mark", None)):
            whole = ReportPart(path, ("nvtx", "osrt"), Storage("look"), Wanted(named_range=name))
            assert extract(whole).range_span == span


def test_all_domains_are_drawn_together(tmp_path: Path) -> None:
    """A frame takes milliseconds, however few ranges it has."""
    many = range(100)
    names = [(0, None, 75, MAIN, n, f"domain {n}") for n in many]
    ranges = [(n, n + 1, 59, MAIN, n, "range") for n in many]
    calls = [(n, n + 1, MAIN, n + 1) for n in many]
    kernels = [(n, n + 1, PROCESS, 0, 1, 7, n + 1) for n in many]
    report = export(
        tmp_path / "r.sqlite",
        NVTX_EVENTS=("start end eventType globalTid domainId text", names + ranges),
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid correlationId", calls),
        CUPTI_ACTIVITY_KIND_KERNEL=("start end globalPid deviceId contextId streamId correlationId", kernels),
    )
    families = (nvtx.FAMILY, projection.FAMILY)
    with open_report(report) as opened:
        source = Source(SourceTables(opened, read_columns(families)))
        frames = [[frame for frame in f.frames(source, f.state()) if isinstance(frame, Intervals)] for f in families]
        rows = [[frame.data.height for frame in of] for of in frames]
    assert [[n for n in of if n] for of in rows] == [[100], [100]]

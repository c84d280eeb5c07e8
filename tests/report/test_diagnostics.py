"""Warnings of nsys that the rest of the report explains are told from those that mean something."""

from __future__ import annotations

from pathlib import Path

import pytest
from exports import export, tid

from nsys2prv.report.diagnostics import ASIDE, by_text, is_routine, who_says
from nsys2prv.report.report import open_report

LAUNCHER, FIRST, SECOND = tid(0, 10), tid(0, 11), tid(0, 12)
CUDA = "No CUDA events collected. Does the process use CUDA?"
STARTED = "CUDA profiling might have not been started correctly."


def collected(kind: str, process: int) -> tuple[int, str, int]:
    return (1, f"Number of {kind} events collected: \t5.", process)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        # A launcher has OS calls at most, the rank that it started has all.
        (
            [
                (2, CUDA, LAUNCHER),
                (2, STARTED, LAUNCHER),
                collected("OS runtime libraries", LAUNCHER),
                collected("CUDA", FIRST),
            ],
            [f"{CUDA} {ASIDE}", f"{STARTED} {ASIDE}"],
        ),
        # A rank without device work beside one that has it is worth a word.
        (
            [
                (2, CUDA, LAUNCHER),
                (2, CUDA, FIRST),
                collected("NVTX", FIRST),
                collected("CUDA", SECOND),
            ],
            [f"{CUDA} (python 11)", f"{CUDA} {ASIDE}"],
        ),
        # No process has any.
        ([(2, CUDA, LAUNCHER), (2, CUDA, FIRST), collected("NVTX", FIRST)], [CUDA]),
        # Another kind, a warning of no process, and one of another sort.
        (
            [
                (2, CUDA.replace("CUDA", "NVTX"), FIRST),
                (2, CUDA, None),
                (3, "Some events\nwere lost.", FIRST),
                collected("CUDA", FIRST),
            ],
            [CUDA.replace("CUDA", "NVTX"), CUDA, "Some events were lost."],
        ),
    ],
)
def test_a_warning_of_a_process_is_judged_by_what_others_recorded(
    rows: list[tuple[int, str, int | None]], said: list[str], tmp_path: Path
) -> None:
    names = [(p, pid, name) for p, pid, name in ((LAUNCHER, 10, "/bin/torchrun"), (FIRST, 11, "/bin/python"))]
    path = export(
        tmp_path / "r.sqlite",
        PROCESSES=("globalPid pid name", names),
        NVTX_EVENTS=("start end globalTid text", []),
        DIAGNOSTIC_EVENT=("severity text globalPid", rows),
    )
    with open_report(path) as report:
        found = report.diagnostics()
    assert found == said
    assert [is_routine(text) for text in found] == [ASIDE in text for text in said]


def test_warnings_that_differ_in_numbers_alone_are_one() -> None:
    """Amounts are told from the lowest to the highest: of the first alone a reader takes the loss for small."""
    lost = "Thread 2789, lost 89 records."
    said = {
        "a": [lost, "Thread 2757, lost 96 records.", "Some events were lost."],
        "b": ["Thread 12, lost 4 records.", lost],
        "c": ["Some events were lost."],
    }
    assert list(by_text(said.items())) == [
        ("Thread 12, 2757, 2789, lost 4 to 96 records. (3 that differ only in numbers)", ["a", "b"]),
        ("Some events were lost.", ["a", "c"]),
    ]


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("Lost 12.5 s of data.", "Lost 3.25 s of data.", "Lost 3.25 to 12.5 s of data."),
        ("driver version 535.104.05", "driver version 550.54.15", "driver version 535.104.05, 550.54.15"),
        ("sent to 10.0.0.2", "sent to 10.0.0.1", "sent to 10.0.0.1, 10.0.0.2"),
        ("recorded on 2026-01-31", "recorded on 2025-12-01", "recorded on 2025-12-01, 2026-01-31"),
        ("CPU core 7 is off.", "CPU core 3 is off.", "CPU core 3, 7 is off."),
        ("Lost 1,000 events.", "Lost 20 events.", "Lost 20 to 1,000 events."),
    ],
)
def test_numbers_of_sentences_are_read_whole(one: str, other: str, said: str) -> None:
    ((text, _),) = by_text([("a", [one, other])])
    assert text == f"{said} (2 that differ only in numbers)"


def test_digits_in_words_tell_sentences_apart() -> None:
    assert [text for text, _ in by_text([("a", ["at 0x7f12", "at 0x7f99"])])] == ["at 0x7f12", "at 0x7f99"]


@pytest.mark.parametrize(
    ("reports", "of", "said"),
    [
        (1, 1, "The report says"),
        (2, 2, "Both reports say"),
        (4, 4, "All 4 reports say"),
        (1, 2, "1 of 2 reports says"),
        (2, 4, "2 of 4 reports say"),
    ],
)
def test_who_says_it_is_told_in_one_way(reports: int, of: int, said: str) -> None:
    assert who_says(reports, of) == said

"""Lines that name what reports hold stay readable, however much that is and however long its texts are."""

from pathlib import Path

import pytest
from exports import MAIN, PID, PROCESS, export, tid
from runs import Command

LONG = "x" * 100_000
# eventType 59: a range that was pushed and popped.
RANGE = ("start end eventType globalTid text", [(0, 10, 59, MAIN, LONG), (20, 30, 59, MAIN, "step")])
CALL = ("start end globalTid nameId", [(0, 10, MAIN, "f")])


def longest(text: str) -> int:
    return max(map(len, text.splitlines()))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("translate", "-o", "{out}", "--nvtx", "other"), "'other', but step, xxx"),
        (("translate", "-o", "{out}", "--nvtx", LONG[:-1]), "no report has an NVTX range 'xxx"),
        (("translate", "-o", "{out}", "--window", LONG[:-1]), "no report has an NVTX range 'xxx"),
        (("analyze", "--window", "other"), "the ranges there are: step, xxx"),
        (("analyze", "--iteration", "other"), "the ranges there are: step, xxx"),
        (("analyze", "--phase", LONG[:-1]), "the ranges there are: step, xxx"),
    ],
    ids=["nvtx", "long nvtx", "window", "window of analyze", "iteration", "phase"],
)
def test_messages_shorten_the_texts_of_ranges(
    options: tuple[str, ...], said: str, tmp_path: Path, cli: Command
) -> None:
    report = export(tmp_path / "r.sqlite", NVTX_EVENTS=RANGE)
    told = cli(*(option.replace("{out}", str(tmp_path / "out")) for option in options), report)
    assert (told.code, said in told.err, longest(told.err) < 500) == (2, True, True)


def test_what_reports_say_of_themselves_is_shortened(tmp_path: Path, cli: Command) -> None:
    report = export(
        tmp_path / "r.sqlite",
        CUDNN_EVENTS=CALL,
        DIAGNOSTIC_EVENT=("timestamp severity text", [(0, 2, f"An error: {LONG}")]),
    )
    for command in (("inspect",), ("analyze", "--show", "warnings"), ("translate", "-o", tmp_path / "out")):
        told = cli(*command, report)
        assert (told.code, "An error: xxx" in told.out, longest(told.out) < 600) == (0, True, True)


def test_inspect_tells_sentences_of_several_reports_once_if_only_numbers_differ(tmp_path: Path, cli: Command) -> None:
    for n in (1, 2):
        said = [(0, 2, f"Process {n} was lost."), (0, 2, f"Only {'ab'[n - 1]} says so.")]
        diagnostics = ("timestamp severity text", said)
        export(tmp_path / f"r{n}.sqlite", CUDNN_EVENTS=CALL, DIAGNOSTIC_EVENT=diagnostics)
    told = cli("inspect", tmp_path).out
    assert "Both reports say: Process 1, 2 was lost. (2 that differ only in numbers)" in told.splitlines()
    assert told.count("the report says: Only ") == 2
    # These are the report's own words, and no events that are left out.
    assert "DIAGNOSTIC_EVENT" not in told


@pytest.mark.parametrize("count", [1, 3, 500])
def test_inspect_names_the_active_processes_and_counts_the_others(count: int, tmp_path: Path, cli: Command) -> None:
    others = [(tid(0, PID + n), PID + n, f"idle{n}") for n in range(1, count)]
    report = export(
        tmp_path / "r.sqlite",
        PROCESSES=("globalPid pid name", [(PROCESS, PID, "app"), *others]),
        CUDNN_EVENTS=CALL,
        # A switch is no work of the process.
        SCHED_EVENTS=("start cpu isSchedIn globalTid", [(0, 0, 1, process) for process, *_ in others]),
    )
    told = cli("inspect", report)
    idle = f"; {count - 1} without events" if count > 1 else ""
    assert f"processes: app:{PID}{idle}\n" in told.out
    assert longest(told.out) < 200


def test_inspect_names_some_of_many_active_processes(tmp_path: Path, cli: Command) -> None:
    processes = [(tid(0, n), n, f"p{n}") for n in range(1, 301)]
    switches = [(n, 0, 1, tid(n, n)) for n in range(1, 101)]
    report = export(
        tmp_path / "r.sqlite",
        PROCESSES=("globalPid pid name", processes),
        SCHED_EVENTS=("start cpu isSchedIn globalTid", switches),
    )
    told = cli("inspect", report)
    assert "p16:16 and 84 more; 200 without events\n" in told.out
    assert "p17:17" not in told.out

"""Texts on terminals of several widths: nothing breaks inside a word, and tables stay tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from programs import GOOD, analysis_of, program

from nsys2prv.cli.first_screen import verdict_of
from nsys2prv.cli.screen import USUAL, Screen, fitting, terminal, terminal_width
from nsys2prv.cli.text_table import aligned

WARNING = "nccl, 264 rows: kernels without the payload of their NCCL call in the report, and " * 3


def test_a_warning_ends_behind_a_word() -> None:
    found = analysis_of(program(GOOD))
    warned = found.run._replace(remarks=(WARNING,), foremost=(WARNING,))
    lines = verdict_of(found._replace(run=warned), [Path("run")]).splitlines()
    cut = [line for line in lines if line.endswith(" ...")]
    assert cut
    assert all(line.split()[-2] in WARNING.split() for line in cut)


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_screen_has_shorter_lines_and_says_as_much(width: int) -> None:
    found = analysis_of(program(GOOD))
    usual = verdict_of(found, [Path("run")])
    narrow = verdict_of(found, [Path("run")], Screen(width))
    prose = [line for line in narrow.splitlines() if "nsys2prv" not in line]
    assert max(map(len, prose)) <= width < max(map(len, usual.splitlines()))
    assert [word for word in narrow.split() if word != "(or"][:40] == usual.split()[:40]


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Let the standard output be a terminal of so many characters."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))


def test_the_terminal_tells_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for told, width in ((72, 72), (500, 100), (3, 40)):
        on_terminal(monkeypatch, told)
        assert terminal().width == width


def test_lines_in_a_pipe_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert (terminal_width(), terminal(), fitting("word " * 60)) == (None, USUAL, "word " * 60)


def test_the_longest_text_of_a_table_takes_several_lines_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    head, row = ("ms", "what", "name"), ("1.5", "a few words of text", "the name")
    assert len(aligned(head, [row]).splitlines()) == 2
    on_terminal(monkeypatch, 40)
    assert aligned(head, [(*row[:1], f"{row[1]} and some more of them", row[2])]).splitlines() == [
        "   ms  what                     name",
        "  1.5  a few words of text and  the name",
        "       some more of them",
    ]
    wide = [str(10**9)] * 4
    assert aligned((*"abcd", "e"), [(*wide, row[1])]).splitlines() == [
        "           a           b           c           d",
        "      e",
        "  1000000000  1000000000  1000000000  1000000000",
        "      a few words of text",
    ]

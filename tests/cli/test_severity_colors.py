"""Severities have colors on a terminal, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess

import pytest
from runs import COMMAND, SAMPLES

from nsys2prv.cli.severity_colors import colored, takes_colors

SAXPY = str(SAMPLES / "single" / "saxpy.sqlite")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_who_takes_colors(stream: io.StringIO, environment: dict[str, str], expected: bool) -> None:
    assert takes_colors(stream, environment) == expected


def test_the_first_words_of_findings_are_colored() -> None:
    text = "Run high: 1 rank\n\nhigh    2 ms: High memory\n        high up\nmedium  1 ms\nlow     Low"
    assert colored(text) == (
        "Run high: 1 rank\n\n\x1b[1;31mhigh\x1b[0m    2 ms: High memory\n        high up\n"
        "\x1b[1;33mmedium\x1b[0m  1 ms\n\x1b[1;36mlow\x1b[0m     Low"
    )


def on_terminal(**environment: str) -> str:
    """What `analyze` shows on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "analyze", SAXPY], stdout=theirs, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    ) as process:
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other side is closed
        return b""


def test_a_terminal_shows_the_same_text_with_and_without_colors() -> None:
    colors, plain = on_terminal(TERM="xterm", NO_COLOR=""), on_terminal(TERM="xterm", NO_COLOR="1")
    assert "\x1b[1;31mhigh\x1b[0m" in colors
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", colors) == plain

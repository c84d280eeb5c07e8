"""The size of the screen that texts are laid out for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from textwrap import wrap
from typing import NamedTuple

# Size of a screen, in characters and lines.
WIDTH, HEIGHT = 100, 40
# Narrower ones are not laid out for: figures and commands would not fit.
LEAST_WIDTH = 40


class Screen(NamedTuple):
    """A screen of some characters a line, at most WIDTH: longer lines are hard to read."""

    width: int = WIDTH

    def lines(self, number: int) -> int:
        """Return how many lines hold what `number` lines of WIDTH characters hold."""
        return -(-number * WIDTH // self.width)

    def cut(self, text: str, most: int, hanging: str = "  ") -> Iterator[str]:
        """Yield a text as lines, of WIDTH characters at most `most`, cut behind a word where it is longer."""
        lines = self.lines(most)
        yield from wrap(
            text, self.width, subsequent_indent=hanging, max_lines=lines, placeholder=" ...", break_on_hyphens=False
        )


USUAL = Screen()


def terminal_width() -> int | None:
    """Return the characters in a line of the terminal, or of COLUMNS there, LEAST_WIDTH or more; None in a pipe."""
    # A shell may have closed the standard output (`>&-`).
    if not (sys.stdout and sys.stdout.isatty()):
        return None
    columns = shutil.get_terminal_size((0, 0)).columns
    return max(LEAST_WIDTH, columns) if columns else None


def terminal() -> Screen:
    """Return the screen of the terminal."""
    return Screen(min(WIDTH, terminal_width() or WIDTH))


def fitting(line: str, indent: str = "") -> str:
    """Return a line as several where the terminal is narrower: it would break inside a word."""
    width = terminal_width()
    if width is None:
        return indent + line
    return "\n".join(wrap(line, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False))

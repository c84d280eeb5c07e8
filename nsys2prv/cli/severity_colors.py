"""Colors of severities on a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TextIO

from nsys2prv.analysis.findings.finding import SEVERITIES

# ANSI codes, from the worst to the mildest: red, yellow, cyan. They differ in lightness, too.
CODES = dict(zip(SEVERITIES, ("31", "33", "36"), strict=True))
_AT_BEGIN = re.compile(rf"^({'|'.join(SEVERITIES)})(?= )", re.MULTILINE)


def takes_colors(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return True for a terminal that shows colors, unless NO_COLOR is set (no-color.org) or TERM is `dumb`."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def colored(verdict: str) -> str:
    """Return a verdict with its severities, the first words of findings, in color."""
    return _AT_BEGIN.sub(lambda found: f"\x1b[1;{CODES[found[1]]}m{found[1]}\x1b[0m", verdict)  # type: ignore[index]

"""The family that CONTRIBUTING.md shows stands in the code as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# "... In `path`:" or "`path`:", then a diff; a further diff without a path is of the same file.
STEP = re.compile(r"(?:`([\w/]+\.py)`:\n\n)?^```diff\n(.*?)^```", re.MULTILINE | re.DOTALL)
MAX_LINES = 100


def _steps() -> list[tuple[str, str]]:
    """Path and added lines of each change."""
    steps: list[tuple[str, str]] = []
    for path, diff in STEP.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        steps.append((path or steps[-1][0], re.sub(r"^\+", "", diff, flags=re.MULTILINE)))
    return steps


@pytest.mark.parametrize(("path", "added"), _steps())
def test_the_family_of_the_guide_is_in_the_code_as_it_says(path: str, added: str) -> None:
    assert added in (ROOT / path).read_text(encoding="utf-8")


def test_the_guide_has_every_step() -> None:
    assert [path for path, _ in _steps()] == [
        "nsys2prv/report/schema.py",
        "nsys2prv/model/event_types.py",
        "nsys2prv/families/host/overhead.py",
        "nsys2prv/families/__init__.py",
        "nsys2prv/families/__init__.py",
        "tests/families/test_overhead.py",
    ]


def test_the_family_of_the_guide_is_small() -> None:
    assert sum(len(added.splitlines()) for _, added in _steps()) < MAX_LINES

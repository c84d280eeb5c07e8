"""The family that CONTRIBUTING.md adds, added to a copy of the code: its changes apply, its test passes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# "... In `path`:" or "`path`:", then a diff; a further diff without a path is of the same file.
STEP = re.compile(r"(?:`([\w/]+\.py)`:\n\n)?^```diff\n(.*?)^```", re.MULTILINE | re.DOTALL)
MAX_LINES = 100


def _steps() -> list[tuple[str, str]]:
    """Path and diff of each change."""
    steps: list[tuple[str, str]] = []
    for path, diff in STEP.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        steps.append((path or steps[-1][0], diff))
    return steps


def _apply(file: Path, diff: str) -> None:
    """Put the lines with `+` after the others, which must be in the file."""
    added = "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] == "+")
    before = "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] == " ")
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    assert text.count(before) == 1 or not text, f"{file.name} has not once: {before}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text.replace(before, before + added) if text else added, encoding="utf-8")


def test_the_family_of_the_guide_can_be_added_as_it_says(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "nsys2prv", tmp_path / "nsys2prv", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "sample_reports").symlink_to(ROOT / "sample_reports")
    steps = _steps()
    for path, diff in steps:
        _apply(tmp_path / path, diff)
    (test,) = (path for path, _ in steps if path.startswith("tests/"))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ".", test]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_the_family_of_the_guide_is_small() -> None:
    assert sum(line.startswith("+") for _, diff in _steps() for line in diff.splitlines()) < MAX_LINES

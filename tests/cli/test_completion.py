"""Shell completion, as docs/commands.md says how to set it up."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nsys2prv.cli.main import COMMANDS


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """`nsys2prv` as pip installs it, finding the package where these tests do."""
    path = tmp_path / "nsys2prv"
    text = f"import sys; sys.path[:] = {sys.path!r}; from nsys2prv.cli.main import main; main()"
    # A first line that names Python's own path may hold neither blanks nor much.
    path.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-c", text])} "$@"\n')
    path.chmod(0o755)
    return path


def completed(program: Path, line: str) -> list[str]:
    """What bash offers for a line with the cursor at its end."""
    environment = {
        **os.environ,
        "_NSYS2PRV_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
    return [said.split(",")[1] for said in done.stdout.splitlines()]


def test_commands_and_options(program: Path) -> None:
    assert completed(program, "nsys2prv ") == list(COMMANDS)
    assert completed(program, "nsys2prv an") == ["analyze"]
    assert completed(program, "nsys2prv translate --off") == ["--offsets"]
    assert completed(program, "nsys2prv analyze --nccl us") == ["useful"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_line_of_the_docs_gives_a_script(shell: str, program: Path) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("click asks bash for its version")
    environment = {**os.environ, "_NSYS2PRV_COMPLETE": f"{shell}_source"}
    script = subprocess.run([program], env=environment, capture_output=True, text=True, check=True).stdout
    assert f"{shell}_complete" in script
    if path := shutil.which(shell):
        assert subprocess.run([path, "-n"], input=script, text=True, check=False).returncode == 0

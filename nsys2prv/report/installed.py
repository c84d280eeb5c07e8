"""Find the programs of Nsight that are installed on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_installed(program: str) -> Path | None:
    """Return a program, such as `nsys`; None if it is not installed.

    It is that of its home, such as NSYS_HOME (also of bin/ and target-linux-* there), else the one on PATH.
    """
    if home := os.environ.get(f"{program.upper()}_HOME"):
        top = Path(home).absolute()
        folders = [top, top / "bin", *sorted(top.glob("target-linux-*"))]
        if found := next((f / program for f in folders if (f / program).is_file()), None):
            return found
    on_path = shutil.which(program)
    return Path(on_path) if on_path else None

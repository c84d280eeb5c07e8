"""Two translations to one output at once: the later one is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from runs import left_in

import nsys2prv
from nsys2prv.errors import UsageError

# Holds an intermediate folder of the trace `trace` in the current folder, until its input ends.
OTHER = """
import sys
from pathlib import Path
from nsys2prv.pipeline.write.files import scratch
with scratch(Path("trace").absolute(), alone=True):
    print("ready", flush=True)
    sys.stdin.read()
"""
ONE = nsys2prv.Execution(jobs=1)


def test_the_later_of_two_translations_to_one_output_is_refused(saxpy: Path, tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdin
    assert other.stdout
    with other:
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(UsageError, match=rf"trace: process {other.pid} is writing this trace; wait for it"):
            nsys2prv.translate(saxpy, tmp_path / "trace", execution=ONE)
        assert left_in(tmp_path) == [f".trace.{other.pid}.partial"]
        nsys2prv.translate(saxpy, tmp_path / "trace2", execution=ONE)
        other.stdin.close()
    nsys2prv.translate(saxpy, tmp_path / "trace", execution=ONE)

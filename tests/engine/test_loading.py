"""`nsys2prv.engine.running.loading`: how a process is set up before it works."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# Pages that are had anew for 48 MB in pieces, the second time and later.
PROBE = """
import resource
from nsys2prv.engine.running.loading import loading
with loading():
    pass
def take():
    for piece in [bytearray(6_000_000) for _ in range(8)]:
        piece[::4096] = bytes(len(piece[::4096]))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
first = take()
print([take() for _ in range(3)][-1] - first)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others than glibc cannot be told to keep memory")
def test_memory_is_kept_for_what_is_next() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1_000

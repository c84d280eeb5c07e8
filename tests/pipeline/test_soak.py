"""A short soak: a process that translates again and again holds no more than after the first few times."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path

import pytest

SOAK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "soak.py"))


def test_nothing_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand times: `python benchmarks/soak.py`."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    _, warm, *later = SOAK["soak"](30, SOAK["REPORTS"], tmp_path, 10)
    assert len(later) == 2
    for now in later:
        assert (now.descriptors, now.files) == (warm.descriptors, warm.files)
        # Those that read ahead end on their own.
        assert now.threads <= warm.threads + 4
        # 20 traces of some 100 kB in memory would be 2 MB, 20 reports 10 MB; an allocator's own play is some MB.
        assert now.memory < warm.memory + 40_000_000

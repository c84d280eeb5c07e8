"""Evidence on the page is in words and units of its reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nsys2prv import analysis
from nsys2prv.page.evidence import WORDS, evidence_pair


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("starved_ns", 26_188_000, ("the device has no launched work", "26.188 ms")),
        ("filled", 0.957, ("part of the memory that is full", "95.7 %")),
        ("functions", [["step", "train.py", 0.796]], ("functions", "step (train.py) 79.6 %")),
        ("exposed_waiting_ns", 1_000_000, ("exposed waiting", "1.000 ms")),
        ("delay_ns", 3_000_000, ("delays of the window together", "3.000 ms")),
        ("launches", 340, ("launches", "340")),
        ("gb_s", 12.5, ("bandwidth", "12.500 GB/s")),
        ("missing", {"metrics": "--gpu-metrics-devices"}, ("missing", "metrics: --gpu-metrics-devices")),
        ("kernels", ["a", "b"], ("kernels", "a, b")),
    ],
)
def test_evidence_is_told_in_words_with_its_unit(key: str, value: Any, told: tuple[str, str]) -> None:
    assert evidence_pair(key, value) == told


@pytest.mark.parametrize("key", WORDS)
def test_words_are_of_evidence_that_findings_have(key: str) -> None:
    texts = (file.read_text(encoding="utf-8") for file in Path(analysis.__file__).parent.rglob("*.py"))
    assert any(f'"{key}"' in text for text in texts)

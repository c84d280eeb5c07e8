"""Names of activities in sentences."""

from __future__ import annotations

import pytest

from nsys2prv.analysis.facts.activity_names import activity


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Host-to-Device", "a copy `Host-to-Device`"),
        ("Unified Device-to-Host", "a copy `Unified Device-to-Host`"),
        ("Memset", "`Memset`"),
        ("k" * 50, f"`{'k' * 37}...`"),
    ],
)
def test_a_copy_is_told_as_one(name: str, told: str) -> None:
    assert activity(name) == told

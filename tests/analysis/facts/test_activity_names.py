"""Names of activities in sentences."""

from __future__ import annotations

import pytest

from nsys2prv.analysis.facts.activity_names import activity


@pytest.mark.parametrize(
    ("name", "told", "one"),
    [
        ("Host-to-Device", "a copy `Host-to-Device`", "one copy `Host-to-Device`"),
        ("Unified Device-to-Host", "a copy `Unified Device-to-Host`", "one copy `Unified Device-to-Host`"),
        ("Memset", "`Memset`", "one `Memset`"),
        ("k" * 50, f"`{'k' * 37}...`", f"one `{'k' * 37}...`"),
    ],
)
def test_a_copy_is_told_as_one(name: str, told: str, one: str) -> None:
    assert (activity(name), activity(name, one=True)) == (told, one)

"""Times and sizes as users write them: `1.5s`, `200us`, `4GB`, `500MiB`."""

from __future__ import annotations

import re

from nsys2prv.errors import UsageError

_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "": 10**9}
_SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_time(option: str, text: str) -> int:
    """Return the ns of a time such as `1.5s` or `200us`; seconds where it has no unit. Raises UsageError."""
    match = re.fullmatch(r"\s*(\d+)(?:\.(\d+))?\s*(ns|us|ms|s|)\s*", text)
    if not match:
        raise UsageError(f"{option}: {text!r} is not a time; write one such as 1500ms or 1.5s")
    unit = _UNITS[match[3]]
    fraction = (match[2] or "")[:9]
    return int(match[1]) * unit + int(fraction or 0) * unit // int(10 ** len(fraction))


def parse_span(text: str) -> tuple[int | None, int | None]:
    """Return begin and end in ns of a span such as `1.5s:2s`; None for an empty side. Raises UsageError."""
    low, colon, high = text.partition(":")
    if not colon:
        raise UsageError(f"--time {text}: this is not a span; give FROM:TO, such as 1.5s:2s (either side may be empty)")
    start, end = (parse_time("--time", side) if side.strip() else None for side in (low, high))
    return start, end


def parse_size(option: str, text: str) -> int:
    """Return the bytes of a size such as `4GB` or `500MiB`. Raises UsageError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", text.lower())
    if not match or match[2] not in _SIZES:
        raise UsageError(f"{option}: {text!r} is not a size; write one such as 4GB or 500MiB")
    return int(float(match[1]) * _SIZES[match[2]])

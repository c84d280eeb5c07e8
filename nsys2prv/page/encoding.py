"""Data of the page as text: arrays of integers by planes of bytes, deflated, in base64.

A plane holds one byte of each number. High bytes are mostly 0 and take no room once they are deflated.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

# From 1 to 9: higher levels take far longer for a few percent.
LEVEL = 6
# A double of JavaScript holds integers below this exactly, in seven planes. As ns it is 104 days.
HIGHEST = 1 << 53


def planes(values: npt.NDArray[Any]) -> tuple[int, bytes]:
    """Return the number of planes of integers from 0 to below HIGHEST, and their bytes, the lowest plane first."""
    assert not len(values) or (values.min() >= 0 and values.max() < HIGHEST)
    count = max(1, (int(values.max(initial=0)).bit_length() + 7) // 8)
    split = np.ascontiguousarray(values, dtype="<u8").view(np.uint8).reshape(-1, 8)[:, :count]
    return count, np.ascontiguousarray(split.T).tobytes()


def columns_block(columns: Mapping[str, npt.NDArray[Any]]) -> tuple[list[list[Any]], str]:
    """Return name and planes of each column, and all columns as text."""
    parts = {name: planes(values) for name, values in columns.items()}
    return [[name, count] for name, (count, _) in parts.items()], packed(b"".join(data for _, data in parts.values()))


def packed(data: bytes) -> str:
    """Return bytes as text: deflated without a header, in base64."""
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b64encode(deflate.compress(data) + deflate.flush()).decode("ascii")


def json_block(value: Any) -> str:
    """Return a JSON value as text, deflated."""
    return packed(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace"))

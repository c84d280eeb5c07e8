"""Kinds of CUDA streams by what they wait for, as exports number them (ENUM_CUPTI_STREAM_TYPE)."""

from __future__ import annotations

from enum import IntEnum


class StreamKind(IntEnum):
    """A kind of stream.

    Work on the null stream, the legacy default stream, waits for what was launched before it on the blocking streams of
    its context, and theirs for it (CUDA programming guide, default stream).
    """

    BLOCKING = 1
    NON_BLOCKING = 2
    NULL = 3

"""Names of device activities in sentences."""

from __future__ import annotations

import re

from nsys2prv.model.words import short

# Copies are named by their ends, such as `Host-to-Device`.
COPY_ENDS = re.compile(r"\b\w+-to-\w+$")


def activity(name: str) -> str:
    """Return the words for an activity: its name, of a copy that it is one."""
    return f"{'a copy ' if COPY_ENDS.search(name) else ''}`{short(name, 40)}`"

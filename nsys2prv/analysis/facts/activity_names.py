"""Names of device activities in sentences."""

from __future__ import annotations

import re

from nsys2prv.model.words import short

# Copies are named by their ends, such as `Host-to-Device`.
COPY_ENDS = re.compile(r"\b\w+-to-\w+$")


def activity(name: str, one: bool = False) -> str:
    """Return the words for an activity: its name, of a copy that it is one. `one`: begin with that word."""
    if COPY_ENDS.search(name):
        return f"{'one' if one else 'a'} copy `{short(name, 40)}`"
    return f"{'one ' if one else ''}`{short(name, 40)}`"

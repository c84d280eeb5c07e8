"""Parts of the names of GPU metrics that the program looks for."""

from __future__ import annotations

from collections.abc import Sequence

# The GPU metric that analysis looks at when none is named: part of its name.
TENSOR = "tensor active"
# The clock of the SMs: part of its name.
CLOCK = "gpc clock frequency"


def has_part(name: str, parts: Sequence[str]) -> bool:
    """Return True if the name of a metric has one of the parts, in any case."""
    return any(part.lower() in name.lower() for part in parts)

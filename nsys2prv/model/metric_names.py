"""Texts by which the program looks for GPU metrics: a metric is meant if its name holds one, in any case."""

from __future__ import annotations

from collections.abc import Sequence

# The GPU metric that analysis looks at when none is named.
TENSOR = "tensor active"
# The clock of the SMs.
CLOCK = "gpc clock frequency"


def holds_any(name: str, texts: Sequence[str]) -> bool:
    """Return True if the name of a metric holds one of the texts, in any case."""
    return any(text.lower() in name.lower() for text in texts)

"""Parts of the names of GPU metrics that the program looks for."""

from __future__ import annotations

# The GPU metric that analysis looks at when none is named: part of its name.
TENSOR = "tensor active"
# The clock of the SMs: part of its name.
CLOCK = "gpc clock frequency"

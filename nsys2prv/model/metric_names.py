"""Names by which GPU metrics are found in reports."""

from __future__ import annotations

# The GPU metric that analysis looks at when none is named: part of its name.
TENSOR = "tensor active"

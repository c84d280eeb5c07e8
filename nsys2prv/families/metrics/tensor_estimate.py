"""Tensor activity of each kernel's class on its GPU: the type of an attribute of kernels.

The analysis estimates it: the kernels of a GPU and its samples may be in different reports (see
analysis/metrics/estimates.py).
"""

from __future__ import annotations

from nsys2prv.families.whole_run_family import whole_run_family
from nsys2prv.model.event_types import TENSOR_ESTIMATE

FAMILY = whole_run_family("tensor_estimate", "Tensor activity of kernel classes (estimate)", (TENSOR_ESTIMATE,))

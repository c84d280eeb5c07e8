"""Families of kernels that several rules tell apart (see intervals/kernel_classes.toml)."""

from __future__ import annotations

ELEMENTWISE = "elementwise"
# Conversions of types, copies and transposes.
COPIES = "copy/cast"
REDUCTION = "reduction"
GATHERS = "gather/scatter"
# Families of products: they keep their data in registers and shared memory, and run fast with few warps.
PRODUCTS = r"(?i)^(?:GEMM|(?:flash )?attention|conv)"

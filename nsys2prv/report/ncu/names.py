"""One spelling of kernel names: Nsight Compute and Nsight Systems demangle differently."""

from __future__ import annotations

import polars as pl

# In order: pattern, what replaces it. Nsight Compute leaves out some namespaces (`at::native::`, `cudnn::`) and the
# types of values in template arguments, `(int)128`; other demanglers write `128ul`, `true`, `(anonymous namespace)`.
_RULES = (
    (r"\(anonymous namespace\)|\{anonymous\}", "<unnamed>"),
    (r"\((?:[A-Za-z_][\w ]*|<unnamed>|::)+\)(-?\d)", "${1}"),
    (r"\btrue\b", "1"),
    (r"\bfalse\b", "0"),
    (r"\b(\d+)[uUlL]+\b", "${1}"),
    (r"(?:[A-Za-z_]\w*|<unnamed>)::", ""),
    (r"\s+", ""),
)


def name_key(names: pl.Expr) -> pl.Expr:
    """Return one spelling of kernel names: without namespaces, types of template values, and blanks.

    Different kernels may share it. Both tools' names go through the same rules, so that the n-th kernel of a spelling
    is the same launch in both.
    """
    for pattern, replacement in _RULES:
        names = names.str.replace_all(pattern, replacement)
    return names


def without_ranges(keys: pl.Expr) -> pl.Expr:
    """Return keys without the NVTX ranges before them, as `--print-nvtx-rename kernel` writes them: `forward/NAME`."""
    return keys.str.extract(r"([^/]*)$")

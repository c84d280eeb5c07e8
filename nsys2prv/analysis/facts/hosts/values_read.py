"""Values that hosts read from devices and wait for, by the kernels before their copies."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.communication.repeated_passes import BACKWARD
from nsys2prv.analysis.facts.framework import Framework
from nsys2prv.analysis.facts.gaps import kept_time
from nsys2prv.analysis.facts.hosts.launcher_waits import waits_of_launchers
from nsys2prv.analysis.facts.kernel_families import REDUCTION
from nsys2prv.analysis.facts.thresholds import MANY_OPERATIONS, MOST_WAITS, VALUE_BYTES
from nsys2prv.analysis.frames import COPY, TO_HOST
from nsys2prv.analysis.text_columns import text_contains

# Kernels of cuBLAS that make one number, which it copies to the host unless told otherwise (cublasSetPointerMode). Its
# `dot_kernel` is not among them: a `reduce_1Block_kernel` follows it, and a program may have a kernel of that name.
BLAS_RESULT = r"^(?:reduce_1Block_kernel|nrm2_kernel|asum_kernel|iamaxmin_kernel)"
# A flag, as isnan(x).any() makes it.
_FLAG_BYTES = 1
_ANOMALIES = (
    "Most are for flags that threads of the backward pass read after single operations, as with "
    "`torch.autograd.set_detect_anomaly(True)`, which is to find an error, and not to train with. "
)
_OF_BLAS = (
    "Most are for results of cuBLAS, which stay on the device with "
    "`cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE)`: kernels read them there. "
)


def advice_on_values(case: Case) -> str:
    """Return what most waits of launching threads are for, and what to do about them; else an empty text.

    Each copy of up to VALUE_BYTES to the host counts as a wait, by what its stream did before.
    """
    before = {c: pl.col(c).shift(1).over("row", order_by="start") for c in ("name", "family")}
    columns = ("task", "kind", "name", "bytes", "start", "end", "caller_row")
    placed = case.run.work.select(*columns, name_before=before["name"], family_before=before["family"])
    copies = placed.filter(pl.col("kind") == COPY, pl.col("name") == TO_HOST, pl.col("bytes") <= VALUE_BYTES.value)
    reads = case.cut(copies, kept_time(case.analysis))
    most = max(MOST_WAITS.value * case.kept_calls(waits_of_launchers(case)).height, 1)
    if case.framework is Framework.PYTORCH:
        threads = [row for row, label in enumerate(case.run.row_labels) if label.startswith(BACKWARD)]
        of_flags = (pl.col("bytes") == _FLAG_BYTES) & pl.col("caller_row").is_in(threads)
        checks = int(reads.select((of_flags & (pl.col("family_before") == REDUCTION)).sum()).item())
        return _ANOMALIES if checks >= max(most, MANY_OPERATIONS.value * case.step_count) else ""
    if case.framework is Framework.CUDA:
        results = int(reads.select(text_contains("name_before", BLAS_RESULT).sum()).item())
        return _OF_BLAS if results >= most else ""
    return ""

"""What the values are that hosts read from devices, where the kernels before the copies tell."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.communication.repeated_passes import BACKWARD
from nsys2prv.analysis.facts.framework import Framework
from nsys2prv.analysis.facts.kernel_families import REDUCTION
from nsys2prv.analysis.facts.thresholds import MANY_OPERATIONS, MOST_READS, VALUE_BYTES
from nsys2prv.analysis.frames import COPY, TO_HOST
from nsys2prv.analysis.text_columns import text_contains

# Kernels of cuBLAS that make one number, which it copies to the host unless told otherwise (cublasSetPointerMode).
BLAS_RESULT = r"^(?:reduce_1Block_kernel|dot_kernel|nrm2_kernel|asum_kernel|iamaxmin_kernel)"
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
    """Return what most values are that hosts read in the window, and what to do about them; else an empty text.

    Copies of up to VALUE_BYTES count, by what their stream did before.
    """
    window, framework = case.analysis.window, case.framework
    before = {c: pl.col(c).shift(1).over("row", order_by="start") for c in ("name", "family")}
    columns = ("kind", "name", "bytes", "start", "caller_row")
    placed = case.run.work.select(*columns, name_before=before["name"], family_before=before["family"])
    inside = placed.filter(pl.col("start").is_between(window.start, window.end))
    reads = inside.filter(pl.col("kind") == COPY, pl.col("name") == TO_HOST, pl.col("bytes") <= VALUE_BYTES.value)
    if framework is Framework.PYTORCH:
        threads = [row for row, label in enumerate(case.run.row_labels) if label.startswith(BACKWARD)]
        of_flags = (pl.col("bytes") == _FLAG_BYTES) & pl.col("caller_row").is_in(threads)
        checks = int(reads.select((of_flags & (pl.col("family_before") == REDUCTION)).sum()).item())
        many = checks >= MANY_OPERATIONS.value * case.step_count
        return _ANOMALIES if many and checks >= MOST_READS.value * reads.height else ""
    if framework is Framework.CUDA and reads.height:
        results = int(reads.select(text_contains("name_before", BLAS_RESULT).sum()).item())
        return _OF_BLAS if results >= MOST_READS.value * reads.height else ""
    return ""

"""Matrix products and convolutions that do not use tensor cores: FP32 on CUDA cores, by their tiles and names."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.devices.scalar_products import (
    hardly_scalar,
    is_scalar_product,
    mainly_scalar,
    shares_of_scalar_products,
)
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import TENSOR_ACTIVE, TENSOR_GAIN
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.model.words import few_ranks, short

# Names that CUTLASS gives to any kernel.
GENERIC_NAMES = ("Kernel", "Kernel2", "device_kernel")
USE_TENSOR_CORES = Words(
    general="Allow TF32 in the library that computes them, or compute in BF16",
    pytorch="Allow TF32 (torch.set_float32_matmul_precision('high'), and torch.backends.cudnn.allow_tf32 for "
    "convolutions) or compute in BF16 (torch.autocast)",
    jax="Allow TF32 (jax_default_matmul_precision='tensorfloat32') or compute in bfloat16",
    cupy="Allow TF32 (CUPY_TF32=1) or compute in FP16",
    cuda="Allow TF32 (cublasSetMathMode with CUBLAS_TF32_TENSOR_OP_MATH) or compute in BF16 (cublasGemmEx)",
)
# cuDNN computes convolutions of a few channels on CUDA cores, also where TF32 is allowed.
FEW_CHANNELS = " Convolutions of few channels stay on CUDA cores all the same: a kernel of your own may be faster."


def matrix_products(case: Case) -> Iterator[Finding]:
    """Yield the time that tensor cores would save."""
    chosen = is_scalar_product()
    scalar = case.analysis.kernels.filter(pl.col("rank").is_null() & chosen)
    if scalar.is_empty():
        return
    devices = _only_devices(case)
    ranks = sorted({case.run.devices[device].rank for device in devices})
    time = case.kernel_time(float(scalar["total_ns"].sum()), chosen)
    if devices:
        # The mean is that of the devices which compute so.
        time = time._replace(device_ns=time.device_ns * len(case.run.devices) / len(devices))
    active = [
        one.mean for fit in case.analysis.metrics if "tensor" in fit.metric.lower() for one in fit.classes
        if any(name.startswith("GEMM") for name in one.classes) and one.mean is not None
    ]  # fmt: skip
    # A higher activity is that of other matrix products: it says nothing of these.
    activity = max(active) if active and max(active) <= TENSOR_ACTIVE.value else None
    name = scalar["name"][0]
    known_as = scalar["class"][0] if name in GENERIC_NAMES else name
    yield Finding(
        "matrix-products",
        f"{_kinds(scalar)}{f' of {few_ranks(ranks)}' if ranks else ''} do not use tensor cores "
        f"(`{short(known_as, 40)}`): {time.text}",
        time.saved_at_most * (1 - 1 / TENSOR_GAIN.value),
        f"{USE_TENSOR_CORES.of(case.framework)}; give products dimensions that are multiples of 8."
        f"{FEW_CHANNELS if _convolutions(scalar).any() else ''}",
        ranks=named_ranks(ranks),
        evidence={
            "kernels": scalar["name"].head(5).to_list(),
            "classes": scalar["class"].unique(maintain_order=True).head(5).to_list(),
            "products_ns": round(time.device_ns),
            "on_critical_path_ns": round(time.path_ns),
            "tensor_active_percent": None if activity is None else round(activity, 2),
        },
        confidence="high" if activity is not None else "medium",
        command="nsys2prv analyze RUN --show kernels --by class",
        cfg="analysis/kernel_time_by_class",
        at_ns=case.first_start(pl.col("name").cast(pl.String) == name),
    )


def _only_devices(case: Case) -> set[int]:
    """Return the devices that compute products on CUDA cores, if all others compute theirs on tensor cores."""
    scalar, others = mainly_scalar(case), hardly_scalar(case)
    alone = len(scalar) + len(others) == len(shares_of_scalar_products(case)) and others
    return scalar if alone else set()


def _kinds(kernels: pl.DataFrame) -> str:
    """Return what some kernels compute, as the subject of a sentence."""
    found = _convolutions(kernels)
    if found.all():
        return "Convolutions"
    return "Matrix products and convolutions" if found.any() else "Matrix products"


def _convolutions(kernels: pl.DataFrame) -> pl.Series:
    """Return True for kernels of convolutions."""
    return kernels["class"].str.starts_with("convolution")

"""Advice to pin memory of hosts that is copied to devices and back."""

from __future__ import annotations

from nsys2prv.analysis.facts.framework import Words

PIN = Words(
    general="Allocate host buffers as pinned memory (cudaMallocHost; PyTorch: pin_memory=True), and copy "
    "asynchronously on a stream of their own.",
    pytorch="Allocate host buffers as pinned memory (pin_memory=True) and copy asynchronously on a stream of their own "
    "(non_blocking=True).",
    jax="Put arrays on the device ahead of time, few and large (jax.device_put does not wait), and keep them there "
    "from step to step: memory of NumPy is pageable.",
    cupy="Allocate host buffers as pinned memory (cupyx.empty_pinned, numba.cuda.pinned_array), and copy on a stream "
    "of their own (stream=).",
    cuda="Allocate host buffers as pinned memory (cudaMallocHost, cudaHostAlloc), and copy by cudaMemcpyAsync on a "
    "stream of their own.",
)

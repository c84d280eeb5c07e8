"""The registry of families: CONTRIBUTING.md tells what a new one needs."""

from __future__ import annotations

from nsys2prv.families import whole_run
from nsys2prv.families.device import (
    correlation,
    decompression,
    event_waits,
    gpu_contexts,
    graph_creation,
    graphs,
    host_functions,
    kernels,
    memory,
    page_faults,
    synchronization,
)
from nsys2prv.families.family import Family
from nsys2prv.families.host import (
    cpu_samples,
    cuda_api,
    file_access,
    jit,
    libraries,
    openacc,
    openmp,
    os_callers,
    osrt,
    overhead,
    scheduling,
    states,
    system_calls,
)
from nsys2prv.families.metrics import gpu_metrics, memory_pools, memory_usage, network, wddm
from nsys2prv.families.mpi import mpi, ucx
from nsys2prv.families.nccl import nccl, nccl_operations
from nsys2prv.families.nvtx import nvtx, projection, python_samples

# The order is that of summaries.
FAMILIES: tuple[Family, ...] = (
    cuda_api.FAMILY,
    kernels.FAMILY,
    nccl.FAMILY,
    memory.FAMILY,
    page_faults.FAMILY,
    memory_usage.FAMILY,
    memory_pools.FAMILY,
    graphs.FAMILY,
    graph_creation.FAMILY,
    host_functions.FAMILY,
    decompression.FAMILY,
    synchronization.FAMILY,
    correlation.FAMILY,
    event_waits.FAMILY,
    nvtx.FAMILY,
    projection.FAMILY,
    projection.BY_THREAD,
    # After nvtx, which tells of rows of their table that are left out.
    nccl_operations.FAMILY,
    mpi.FAMILY,
    whole_run.WAITING_FAMILY,
    whole_run.CRITICAL_PATH_FAMILY,
    whole_run.IDLE_CAUSES_FAMILY,
    whole_run.LAUNCH_QUEUES_FAMILY,
    openmp.FAMILY,
    openacc.FAMILY,
    ucx.FAMILY,
    libraries.CUBLAS_FAMILY,
    libraries.CUDNN_FAMILY,
    jit.FAMILY,
    osrt.FAMILY,
    os_callers.FAMILY,
    file_access.FAMILY,
    system_calls.FAMILY,
    scheduling.FAMILY,
    cpu_samples.FAMILY,
    python_samples.FAMILY,
    overhead.FAMILY,
    gpu_metrics.FAMILY,
    whole_run.TENSOR_ESTIMATE_FAMILY,
    whole_run.NCU_FAMILY,
    network.FAMILY,
    gpu_contexts.FAMILY,
    wddm.QUEUES_FAMILY,
    wddm.PAGING_FAMILY,
    states.FAMILY,
)


DEFAULT_FAMILIES: tuple[str, ...] = tuple(f.name for f in FAMILIES if f.default)
# Families that find anchors between the clocks of reports.
ANCHOR_FAMILIES: tuple[str, ...] = tuple(f.name for f in FAMILIES if f.anchors)

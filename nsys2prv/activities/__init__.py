"""Families of activities, one module each: tables and relations in, frames out."""

from nsys2prv.activities import (
    correlation,
    cpu_samples,
    cuda_api,
    gpu_contexts,
    gpu_metrics,
    graph_creation,
    graphs,
    kernels,
    libraries,
    memory,
    mpi,
    nccl,
    nvtx,
    openacc,
    openmp,
    osrt,
    overhead,
    projection,
    scheduling,
    synchronization,
    ucx,
)
from nsys2prv.activities.family import Family, Source

# The registry: a new family is its module and one line here. The order is that of summaries.
FAMILIES: tuple[Family, ...] = (
    cuda_api.FAMILY,
    kernels.FAMILY,
    nccl.FAMILY,
    memory.FAMILY,
    graphs.FAMILY,
    graph_creation.FAMILY,
    synchronization.FAMILY,
    correlation.FAMILY,
    nvtx.FAMILY,
    projection.FAMILY,
    projection.BY_THREAD,
    mpi.FAMILY,
    openmp.FAMILY,
    openacc.FAMILY,
    ucx.FAMILY,
    libraries.CUBLAS,
    libraries.CUDNN,
    osrt.FAMILY,
    scheduling.FAMILY,
    cpu_samples.FAMILY,
    overhead.FAMILY,
    gpu_metrics.FAMILY,
    gpu_contexts.FAMILY,
)

__all__ = ["FAMILIES", "Family", "Source"]

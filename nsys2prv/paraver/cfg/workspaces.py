"""Workspaces of Paraver's Hints menu: first what to open first, then all cfgs by the question that they answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nsys2prv.paraver.cfg.text import Cfg

START_HERE = "start here"
_CHOSEN: Mapping[str, Sequence[str]] = {
    START_HERE: (
        "views/cuda_activities",
        "views/kernel_families",
        "views/waiting",
        "views/nvtx_phases",
        "views/gpu_metrics",
        "analysis/pop_efficiency",
        "analysis/overlap_of_communication",
        "analysis/iteration_time",
    ),
    "where is time lost": (
        "analysis/pop_efficiency",
        "analysis/pop_efficiency_by_rank",
        "analysis/pop_by_iteration",
        "analysis/parallel_efficiency",
        "analysis/parallel_efficiency_nccl_useful",
        "analysis/device_states",
        "analysis/device_states_nccl_useful",
        "analysis/device_busy",
        "analysis/useful_time",
        "analysis/useful_bursts",
        "analysis/iteration_time",
        "analysis/iteration_efficiency",
        "views/device_states",
        "views/streams",
        "views/critical_path",
        "analysis/critical_path_by_class",
        "basics/idle_causes",
        "basics/launch_queues",
        "analysis/idle_causes",
    ),
    "kernels": (
        "views/kernel_families",
        "views/kernel_classes",
        "views/kernel_names",
        "views/kernels_in_flight",
        "views/only_gemm",
        "views/only_attention",
        "analysis/kernel_time",
        "analysis/kernel_time_by_class",
        "analysis/kernel_duration",
        "analysis/kernel_duration_by_class",
        "analysis/kernel_durations_alone",
        "analysis/kernel_durations_beside_nccl",
        "analysis/tensor_activity",
        "basics/tensor_estimate",
        "basics/ncu",
        "views/operation_rate",
        "views/dram_rate",
        "basics/kernels_full_name",
        "basics/graphs",
        "basics/graph_creation",
        "basics/jit",
    ),
    "communication": (
        "views/waiting",
        "analysis/waiting_by_rank",
        "views/only_communication",
        "views/nccl",
        "views/collective_arrival",
        "analysis/overlap_of_communication",
        "analysis/overlap_of_window",
        "analysis/nccl_time",
        "analysis/nccl_bytes",
        "analysis/collective_time",
        "analysis/bytes_between_ranks",
        "basics/nccl_calls",
        "basics/nccl_operations",
        "basics/mpi",
        "analysis/host_mpi",
        "basics/ucx",
        "basics/network",
    ),
    "memory": (
        "views/memory_copies",
        "analysis/memory_bytes",
        "analysis/memory_bandwidth",
        "basics/memory_in_use",
        "basics/memory_pools",
        "basics/page_faults",
        "basics/decompression",
    ),
    "hosts and launches": (
        "views/cuda_activities",
        "analysis/host_states",
        "analysis/host_cuda_calls",
        "analysis/host_synchronization",
        "basics/cuda_api",
        "basics/correlation",
        "basics/synchronization",
        "basics/event_waits",
        "basics/host_functions",
        "basics/host_work",
        "basics/osrt",
        "basics/pthreads",
        "basics/os_callers",
        "basics/system_calls",
        "basics/files",
        "basics/scheduling",
        "basics/states",
        "basics/overhead",
        "basics/window",
        "basics/gpu_contexts",
        "basics/wddm",
    ),
    "phases and code": (
        "views/nvtx_phases",
        "basics/nvtx",
        "basics/nvtx_start_end",
        "basics/nvtx_marks",
        "basics/projection",
        "basics/projection_thread",
        "basics/cublas",
        "basics/cudnn",
        "basics/openmp",
        "basics/openacc",
        "basics/cpu_samples",
        "basics/python_samples",
        "basics/python_cuda",
    ),
}
METRICS = "GPU metrics"
NAMES = (*_CHOSEN, METRICS)
_ALSO = re.compile(r"`translate (--also \w+|--ncu FILE|--states|--public-types)`")


def workspaces(cfgs: Sequence[Cfg]) -> dict[str, list[Cfg]]:
    """Return the cfgs of each workspace. A cfg may be in several, and each is in one at least."""
    by_path = {cfg.path.removesuffix(".cfg"): cfg for cfg in cfgs}
    found = {name: [by_path[path] for path in paths] for name, paths in _CHOSEN.items()}
    metrics = [by_path["views/gpu_metrics"], *(cfg for cfg in cfgs if cfg.folder == "hwcounters")]
    return {**found, METRICS: metrics}


def hint(cfg: Cfg) -> str:
    """Return the title of a cfg with the options of `translate` that bring what it shows, where that is off."""
    options = dict.fromkeys(_ALSO.findall(" ".join(cfg.about.split())))
    return f"{cfg.title} (needs {', '.join(options)})" if options else cfg.title

"""Tables of events that no family draws, each with the reason. `inspect` shows them with their rows."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nsys2prv.report.report import Report

# Name of a table, or pattern of names (see re.fullmatch) -> reason why its rows are not drawn.
LEFT_OUT = {
    "CUDA_CALLCHAINS": "the stacks of CUDA calls: the calls are drawn; where each came from is for reading one by one",
    "SYSCALL_CALLCHAINS": "the stacks of system calls: the calls are drawn; their callers are mostly without names",
    "PMU_EVENT.*|UNCORE_PMU_EVENT.*|PERF_EVENT_.*": "counters of CPU cores and SoCs: not supported",
    "SOC_METRICS|BANDWIDTH_USAGE_.*|TEGRA_INTERNAL_API_CALLS": "systems on a chip (Tegra): not supported",
    "CUPTI_ACTIVITY_KIND_(BLOCK|WARP)_(PHASE_)?TRACE": "blocks and warps of kernels: too many for a trace of a run",
    "NET_IB_SWITCH_CONGESTION_EVENT": "packets that met congestion, one by one: the metrics of the switch show it",
    "OSRT_ARGUMENTS": "arguments of OS calls: experimental, as nsys says; files and bytes are in file_access",
    "NVTXT_.*": "texts of other programs that nsys imported (nvtxt): not supported",
    "DYNAMIC_NVTXPAYLOAD_.*": "payloads of NVTX: they are read from NVTX_EVENTS",
    "GENERIC_EVENT_DATA": "values of generic events: they are read from GPU_METRICS, or from their JSON",
    "ETW_.*": "raw events of Windows: what they mean is drawn as WDDM queues and paging",
    "WDDM_(EVICT_ALLOCATION|HW_QUEUE|.*_INFO)_EVENTS": "details of WDDM queues: their packets are drawn",
    "MEMORY_TRANSFER_EVENTS|NV_LOAD_BALANCE.*|TARGET_INFO_WDDM.*": "other events of Windows: not supported",
    "GPU_MEMORY_(BUDGET|USAGE)_EVENTS|DEMOTED_BYTES_EVENTS|TOTAL_BYTES_RESIDENT.*": "Windows: not supported",
    "CUPTI_ACTIVITY_KIND_(INSTANTANEOUS_)?(EVENT|METRIC)(_INSTANCE)?": (
        "counters of kernels by CUPTI's numbers; nvprof writes no names of them: not supported"
    ),
    "CUPTI_ACTIVITY_KIND_(GLOBAL_ACCESS|SHARED_ACCESS|BRANCH|PC_SAMPLING.*|INSTRUCTION_(EXECUTION|CORRELATION))": (
        "counts of instructions within kernels, without times: not supported"
    ),
    "CUPTI_ACTIVITY_KIND_(ENVIRONMENT|PREEMPTION)": "clocks, temperature, power, preemption: not supported",
    "DX\\d+_.*|D3D\\d+_.*|DXGI_.*|NVAPI_.*": "graphics (Direct3D): not supported",
    "OPENGL_.*|VULKAN_.*|KHR_DEBUG_EVENTS|SLI_.*|NVVIDEO_.*|GPU_VIDEO_.*": "graphics and video: not supported",
}


# Tables without events of the run: they describe, name or configure, or hold text that is printed.
DEFINITIONS = re.compile(
    "ENUM_|META_DATA_|TARGET_INFO_|ANALYSIS_|NVTX_PAYLOAD_|NVTX_SCOPES|GENERIC_EVENT_(SOURCES|TYPE)|EXPORT_|SYMBOL|"
    "(StringIds|ProcessStreams|PROCESSES|ThreadNames|MPI_RANKS|MPI_COMMUNICATORS|UCP_WORKERS|NIC_ID_MAP|NET_DEVICE_.*|"
    "DIAGNOSTIC_EVENT)$"
)
# Columns of enumerations, which had names of all kinds (`UnwindMethodType`) before they were called ENUM_....
ENUMERATED = frozenset({"id", "number", "value", "name", "label", "text"})
# Columns that only events have.
TIMES = re.compile("(start|begin|end|stop|time|ts|dur|duration|(raw)?timestamp)_?(ns|us|time)?", re.IGNORECASE)


def events_unread(report: Report) -> dict[str, int]:
    """Return the rows of tables and views that look like events, and that no code reads or names."""
    views = report.tables.views()
    columns = {name: report.tables.columns(name) for name in report.unknown_tables()} | dict(views)
    return {
        f"view {name}" if name in views else name: rows
        for name, held in sorted(columns.items())
        if not defines(name, held) and why_left_out(name) is None
        if any(map(TIMES.fullmatch, held)) and (rows := report.tables.count(name))
    }


def defines(table: str, columns: Iterable[str]) -> bool:
    """Return True for a table that holds no events of the run, by its name or by its columns."""
    return bool(DEFINITIONS.match(table)) or ENUMERATED.issuperset(columns)


def why_left_out(table: str) -> str | None:
    """Return the reason why a table is left out; None without a reason."""
    return next((reason for names, reason in LEFT_OUT.items() if re.fullmatch(names, table)), None)

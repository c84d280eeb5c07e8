"""Timelines that put several kinds of activity together."""

from __future__ import annotations

from collections.abc import Sequence

from nsys2prv.model import event_types as types
from nsys2prv.model.palette import COMMUNICATION_COLOR, COMPUTE_COLOR, FAMILY_BLOCKS, IDLE_COLOR
from nsys2prv.paraver.cfg import nsys_options
from nsys2prv.paraver.cfg.basics import DEFAULT_RANGES, PROCESS_RANGES
from nsys2prv.paraver.cfg.hwcounters import METRIC_LABELS
from nsys2prv.paraver.cfg.look import CODE, GRADIENT, PERCENT
from nsys2prv.paraver.cfg.text import AnyWindow, Cfg, DerivedWindow
from nsys2prv.paraver.cfg.windows import (
    ACTIVITIES,
    COMPUTE_TYPES,
    ON_DEVICE,
    activity,
    beside,
    coded,
    highest_of_task,
    in_blocks,
    in_flight,
    instead,
    lacking,
    metric_if_any,
    of,
    of_nccl_kernels,
    outermost,
    present,
    running,
    stacked,
    values,
)


def _cfg(name: str, title: str, about: str, how: str, *windows: AnyWindow) -> Cfg:
    return Cfg("views", name, title, about, how, windows=windows)


NOT_COMPUTE = (types.MEMORY, types.NCCL_KERNEL)


def _device_state() -> DerivedWindow:
    busy = running("Copies or NCCL", present(*NOT_COMPUTE))
    return DerivedWindow(
        "Device state: 1 communication or copies only, 2 compute",
        "maximum",
        running("Compute kernels", present(*COMPUTE_TYPES)),
        busy,
        level="task",
        factors=(2.0, 1.0),
        look=CODE._replace(palette={0: IDLE_COLOR, 1: COMMUNICATION_COLOR, 2: COMPUTE_COLOR}),
    )


def _only(name: str, what: str, about: str, families: Sequence[str]) -> Cfg:
    """Make a cfg of the kernel classes of families that are neighbors in the palette."""
    blocks = [block for block in FAMILY_BLOCKS if block.name in families]
    shown = in_blocks(f"Kernel class, only {what}", types.KERNEL_CLASS, blocks, look=CODE)
    return _cfg(f"only_{name}", f"Only {what}", f"{about} Other kernels are left out.", nsys_options.CUDA, shown)


# Metrics of the overview, by the title of the window. A trace may lack some: not every GPU has NVLink.
OVERVIEW = {
    "GR Active": METRIC_LABELS["gr_active"],
    "SM Active": METRIC_LABELS["sm_active"],
    "Tensor Active": METRIC_LABELS["tensor_active"],
    "DRAM read": METRIC_LABELS["dram_read"],
    "DRAM write": METRIC_LABELS["dram_write"],
    "NVLink RX": METRIC_LABELS["nvlink_rx_responses_user"],
}


def _metric(title: str, label: str) -> DerivedWindow:
    return metric_if_any(f"{title} [%] (held samples)", label, look=GRADIENT._replace(scale=PERCENT))


CFGS: tuple[Cfg, ...] = (
    _cfg(
        "cuda_activities",
        "CUDA calls, kernels, NCCL and memory operations in one window",
        """Which kind of activity each row does: CUDA calls on host threads; kernels, graphs, NCCL and copies on
streams.""",
        nsys_options.CUDA,
        activity("CUDA activity", types.CUDA_API, *ON_DEVICE, look=ACTIVITIES),
    ),
    _cfg(
        "streams",
        "What each stream runs",
        """Kernels, CUDA graphs, NCCL kernels or memory operations, by kind. Two streams of one device at work are
overlap.""",
        nsys_options.CUDA,
        activity("Stream activity", *ON_DEVICE, look=ACTIVITIES),
    ),
    _cfg(
        "device_states",
        "State of each rank's device: compute, communication only, idle",
        """2 while a kernel other than NCCL's or a CUDA graph runs, 1 while only NCCL or copies do, 0 while the device
is idle. One row a rank: all devices of a process count as one.""",
        nsys_options.CUDA,
        _device_state(),
    ),
    _cfg(
        "kernels_in_flight",
        "Kernels in flight",
        "How many kernels run at once in each rank, NCCL's included.",
        nsys_options.CUDA,
        in_flight("Kernels in flight", types.KERNEL, types.NCCL_KERNEL, look=GRADIENT),
    ),
    _cfg(
        "kernel_names",
        "Kernel names, compute and NCCL",
        "Kernels by short name, and NCCL's in a window of their own with the same time.",
        nsys_options.CUDA,
        values("CUDA kernel", of(types.KERNEL), look=CODE),
        beside(types.KERNEL, values("NCCL kernel", lacking(types.NCCL_KERNEL, types.KERNEL)), look=CODE),
    ),
    _cfg(
        "kernel_families",
        "Kernel families",
        "Kernels by family of classes, NCCL's too: GEMM, attention, normalization, elementwise...",
        nsys_options.CUDA,
        values("Kernel family", of(types.KERNEL_FAMILY), look=CODE),
    ),
    _cfg(
        "kernel_classes",
        "Kernel classes",
        "Kernels by class, NCCL's too: GEMM by layout and tile, attention, normalization, elementwise...",
        nsys_options.CUDA,
        values("Kernel class", of(types.KERNEL_CLASS), look=CODE),
    ),
    _only("gemm", "GEMM", "When does each stream multiply matrices, with which layout and tile?", ("GEMM",)),
    _only("attention", "attention", "When does each stream compute attention?", ("attention", "flash attention")),
    _cfg(
        "only_communication",
        "Only communication",
        "When does each stream communicate? NCCL's kernels, and others that communicate, by name.",
        nsys_options.NCCL,
        values("Communication", of(types.NCCL_KERNEL), look=CODE),
    ),
    _cfg(
        "nvtx_phases",
        "NVTX phases on host and device",
        """The default domain's ranges: the outermost on host threads (iterations, mostly), the innermost there, and the
innermost on the streams that their work ran on.""",
        nsys_options.CUDA_NVTX,
        outermost("Outermost NVTX range", DEFAULT_RANGES, look=CODE),
        stacked("Innermost NVTX range", DEFAULT_RANGES, look=CODE),
        beside(
            types.NVTX_DOMAIN,
            stacked("Innermost NVTX range on the device", instead(types.NVTX_DOMAIN, PROCESS_RANGES)),
            look=CODE,
        ),
    ),
    _cfg(
        "nccl",
        "NCCL by operation and size",
        "Operation and message size of NCCL's kernels.",
        nsys_options.NCCL_CALLS,
        of_nccl_kernels("NCCL operation", types.NCCL_OPERATION, look=coded(types.NCCL_OPERATION)),
        of_nccl_kernels("NCCL message size [B]", types.NCCL_BYTES, look=GRADIENT),
    ),
    _cfg(
        "collective_arrival",
        "Arrival of ranks at collectives",
        """Sequence number of the collective that each rank's NCCL kernel works on, and its communicator. Equal numbers
on one communicator are one collective: where its kernel begins early, the rank waits for the others.""",
        nsys_options.NCCL_CALLS,
        of_nccl_kernels("Sequence number of the collective", types.NCCL_SEQUENCE, look=GRADIENT),
        of_nccl_kernels("NCCL communicator", types.NCCL_COMMUNICATOR, look=CODE),
    ),
    _cfg(
        "waiting",
        "Waiting for other ranks, and for which",
        """Waiting and transfer in NCCL kernels and MPI calls: a rank waits until the last one has come, in a receive
until the message is sent, in a blocking send until the receive begins. The second window names the rank waited
for.""",
        nsys_options.WAITING,
        values("Waiting or transferring", of(types.WAITING), look=coded(types.WAITING)),
        values("Rank waited for", of(types.WAITED_FOR), look=CODE),
    ),
    _cfg(
        "critical_path",
        "Critical path through rows and ranks",
        """What would have to be faster for the window of interest to be shorter? The chain of compute (by class),
transfer, launches, host work, synchronization and copies that decides its length, on the row where each piece runs. The
second window has one row a rank. Needs `translate --also critical_path`.""",
        nsys_options.WAITING,
        values("Critical path", of(types.CRITICAL_PATH), look=coded(types.CRITICAL_PATH)),
        highest_of_task("Critical path by rank", of(types.CRITICAL_PATH), look=coded(types.CRITICAL_PATH)),
    ),
    _cfg(
        "gpu_metrics",
        "GPU metrics at a glance (held samples)",
        """What keeps each GPU busy: its engine, SMs, tensor cores, DRAM or NVLink? Shares of their most in percent,
one row a rank: the mean over its GPUs. Each metric has a cfg of its own in hwcounters.""",
        nsys_options.METRICS,
        *(_metric(title, label) for title, label in OVERVIEW.items()),
    ),
    _cfg(
        "memory_copies",
        "Memory operations with size and throughput",
        "Direction, bytes and throughput [MB/s] of every copy and memset.",
        nsys_options.CUDA,
        values("Memory operation", of(types.MEMORY), look=coded(types.MEMORY)),
        values("Bytes", of(types.MEMORY_BYTES), look=GRADIENT),
        values("Throughput [MB/s]", of(types.MEMORY_THROUGHPUT), look=GRADIENT),
    ),
)

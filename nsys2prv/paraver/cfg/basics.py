"""Cfgs of raw events, one or more a family."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from nsys2prv.model import event_types as types
from nsys2prv.model import line_tags
from nsys2prv.model.event_type import EventType
from nsys2prv.paraver.cfg import record
from nsys2prv.paraver.cfg.look import CODE, GRADIENT, PERCENT, Look
from nsys2prv.paraver.cfg.text import AnyWindow, Cfg, Events, SingleWindow
from nsys2prv.paraver.cfg.windows import MPI_EVENTS, coded, metric, named, of, stacked, values

DEFAULT_RANGES = named(types.NVTX_DOMAIN.label.format(name=types.DEFAULT_DOMAIN))
PROCESS_RANGES = named(types.NVTX_BY_PROCESS.label.format(name=types.DEFAULT_DOMAIN))
THREAD_RANGES = named(types.NVTX_BY_THREAD.label.format(name=types.DEFAULT_DOMAIN))


SHARE = GRADIENT._replace(scale=PERCENT)


def _cfg(name: str, title: str, about: str, how: str, *windows: AnyWindow) -> Cfg:
    return Cfg("basics", name, title, about, how, windows=windows)


def _nested(name: str, kind: EventType, title: str, how: str, about: str = "") -> Cfg:
    """Make the cfg of events that nest: the innermost shows."""
    about = about or f"{title} as recorded. Where they nest, the innermost shows."
    return _cfg(name, title, about, how, stacked(kind.label, of(kind), look=coded(kind)))


def _plain(name: str, kind: EventType, title: str, how: str, about: str = "") -> Cfg:
    """Make the cfg of events that do not nest on a row."""
    shown = values(kind.label, of(kind), look=coded(kind))
    return _cfg(name, title, about or f"{title} as recorded.", how, shown)


def _ranges(name: str, title: str, about: str, events: Events, how: str = record.NVTX) -> Cfg:
    return _cfg(name, title, about, how, stacked(title, events, look=CODE))


def _launch_lines() -> Cfg:
    calls = SingleWindow(
        "CUDA call, with lines to what it launched",
        of(types.CUDA_API),
        compose={"compose_thread": "Stacked Val"},
        tags=(line_tags.CORRELATION_TAG,),
        look=Look(open=True, lines=True),
    )
    about = """CUDA calls, and a line from each call to the device activity that it launched. At full range the lines
cover the picture: zoom in."""
    return _cfg("correlation", "CUDA calls with lines to what they launched", about, record.CUDA, calls)


def _waits() -> Cfg:
    about = """Kernels on their streams, and lines from what a CUDA event recorded to the stream that waits for it.
At full range the lines cover the picture: zoom in."""
    tags = (line_tags.EVENT_WAIT_TAG, line_tags.STREAM_WAIT_TAG)
    kernels = SingleWindow(
        "Kernel, with lines to what waits", of(types.KERNEL), tags=tags, look=Look(open=True, lines=True)
    )
    return _cfg("event_waits", "What waits for what: CUDA events", about, record.CUDA, kernels)


def _states() -> Cfg:
    about = "What each host thread and stream does, in Paraver's own states. Needs `translate --states`."
    shown = SingleWindow("State", None, function="State As Is", look=CODE)
    return _cfg("states", "States of threads and streams", about, record.CUDA, shown)


def _kinds(kinds: Mapping[str, EventType], how: str) -> Iterator[Cfg]:
    """Make a cfg for each kind of call: one window cannot tell names of different types apart."""
    for kind in kinds.values():
        yield _nested(kind.key, kind, kind.label, how)


def _amounts(kinds: Iterable[EventType], how: str) -> Iterator[Cfg]:
    """Make a cfg for each kind of amount: the color shows how much."""
    for kind in kinds:
        shown = values(kind.label, of(kind), look=GRADIENT)
        name = re.sub(r"\W+", "_", kind.label.removesuffix(" [B]").lower())
        yield _cfg(name, kind.label, "The amount as recorded, until the next.", how, shown)


def _launch_queues() -> Cfg:
    about = "Number of launched activities that wait on the stream: by color. Needs `translate --also launch_queues`."
    shown = values(types.LAUNCH_QUEUE.label, of(types.LAUNCH_QUEUE), look=GRADIENT)
    return _cfg("launch_queues", "Launch queues", about, record.CUDA, shown)


def _mpi() -> Cfg:
    about = "MPI calls: point-to-point, collective, one-sided, I/O and others. Where they nest, the innermost shows."
    calls = stacked("MPI call", MPI_EVENTS, look=coded(*types.MPI.values()))
    return _cfg("mpi", "MPI calls", about, record.MPI, calls)


def _tensor_estimate() -> Cfg:
    about = """Tensor activity [%] of the class of each kernel on its GPU: an estimate from all samples of the run, not
a measurement of this kernel. Kernels of classes without an estimate, or with one of 0, have no value. Needs
`translate --also tensor_estimate`."""
    shown = values("Tensor activity of the class [%] (estimate)", of(types.TENSOR_ESTIMATE), look=SHARE)
    title = "Tensor activity of kernels by class (estimate)"
    return _cfg("tensor_estimate", title, about, record.CUDA_METRICS, shown)


def _network() -> Cfg:
    about = """Bytes that a network adapter received, as sampled: a value holds until the next. For another metric
change the event type (Filter, Events, Event type): network metrics are those from 70030000 on."""
    shown = values("Bytes received", named("*Bytes received*"), look=GRADIENT)
    return _cfg("network", "Network metrics: bytes received", about, record.NETWORK, shown)


def _gpu_metrics() -> Cfg:
    about = """Share of time in which the graphics and compute engine of each GPU was busy, as sampled: a value
holds until the next one, the last for one period. Every other metric has a cfg of its own in hwcounters."""
    shown = metric("GR Active [%] (held samples)", "GR Active*", look=SHARE)
    return _cfg("gpu_metrics", "GPU metrics: engine activity (held samples)", about, record.METRICS, shown)


CFGS: tuple[Cfg, ...] = (
    _nested("cuda_api", types.CUDA_API, "CUDA API calls", record.CUDA),
    _plain("kernels", types.KERNEL, "Kernels", record.CUDA, "Kernels by short name, on their streams; NCCL's apart."),
    _plain(
        "kernels_full_name",
        types.KERNEL_FULL_NAME,
        "Kernels by full name",
        record.CUDA,
        "Kernels, NCCL's too, by demangled name.",
    ),
    _plain(
        "kernel_class",
        types.KERNEL_CLASS,
        "Kernel classes",
        record.CUDA,
        "Kernels, NCCL's too, by class: GEMM by layout and tile, attention, normalization, elementwise...",
    ),
    _plain("nccl", types.NCCL_KERNEL, "NCCL kernels", record.NCCL),
    _nested("nccl_calls", types.NCCL_CALL, "NCCL calls on the host", record.NCCL_CALLS),
    _plain("memory", types.MEMORY, "Memory operations", record.CUDA, "Copies by direction, and memsets, on streams."),
    _plain("page_faults", types.UM_GPU_FAULT, "Unified memory: page faults on the GPU", record.UNIFIED_MEMORY),
    _plain(
        "page_faults_cpu",
        types.UM_CPU_FAULT,
        "Unified memory: page faults on the CPU",
        record.UNIFIED_MEMORY,
        "Where a thread touched memory that was on a device: the function, 1 ns long.",
    ),
    *_amounts(types.MEMORY_IN_USE, record.MEMORY_USAGE),
    *_amounts((types.POOL_SIZE, types.POOL_IN_USE), record.MEMORY_USAGE),
    _plain("graphs", types.GRAPH, "CUDA graph executions", record.GRAPH, "Whole graphs; their kernels are hidden."),
    _plain(
        "graph_creation",
        types.GRAPH_CREATION,
        "Creation of CUDA graphs",
        record.GRAPH_NODES,
        """Graphs and nodes as they are made, 1 ns long: zoom in, or use flags. Needs
`translate --also graph_creation`.""",
    ),
    _nested("synchronization", types.SYNCHRONIZATION, "CUDA synchronization", record.CUDA),
    _launch_lines(),
    _waits(),
    _states(),
    _ranges(
        "nvtx",
        "NVTX ranges of the default domain",
        """Push/pop ranges of the default domain, the innermost of those that nest. For another domain change the event
type's label to `NVTX <domain>` (Filter, Events, Event type).""",
        DEFAULT_RANGES,
    ),
    _ranges("nvtx_start_end", "NVTX start/end ranges", "Ranges that need not nest.", of(types.NVTX_RANGE)),
    _ranges("nvtx_marks", "NVTX marks", "Marks, drawn 1 ns long: zoom in, or use flags.", of(types.NVTX_MARK)),
    _ranges(
        "projection",
        "NVTX ranges on the device",
        """The default domain's ranges on the streams that their work ran on, the innermost of those that nest: work
that any thread of the process launched while the range was open on its main thread.""",
        PROCESS_RANGES,
        record.CUDA_NVTX,
    ),
    _ranges(
        "projection_thread",
        "NVTX ranges on the device, by the launching thread",
        """As `projection`, with the work that the range's own thread launched: NVIDIA's rule. Needs
`translate --also projection_thread`.""",
        THREAD_RANGES,
        record.CUDA_NVTX,
    ),
    _mpi(),
    _plain(
        "waiting",
        types.WAITING,
        "Waiting and transfer",
        record.WAITING,
        "NCCL kernels and MPI calls, until the last rank has come and after it.",
    ),
    _plain(
        "critical_path",
        types.CRITICAL_PATH,
        "Critical path",
        record.WAITING,
        "The chain of work and waits that decides how long the window lasts. Needs `translate --also critical_path`.",
    ),
    _plain(
        "idle_causes",
        types.IDLE_CAUSE,
        "Causes of idle time",
        record.WAITING,
        "Why each device idles, on its first stream. Needs `translate --also idle_causes`.",
    ),
    _launch_queues(),
    *_kinds(types.OPENMP, record.OPENMP),
    *_kinds(types.OPENACC, record.OPENACC),
    _nested("ucx", types.UCX_CALL, "UCX calls", record.UCX),
    _nested("cublas", types.CUBLAS_CALL, "cuBLAS calls", record.CUBLAS),
    _nested("cudnn", types.CUDNN_CALL, "cuDNN calls", record.CUDNN),
    _nested(
        "jit", types.JIT_COMPILATION, "JIT compilation", record.CUDA, "When threads wait for kernels to be compiled."
    ),
    _nested("host_functions", types.HOST_CALLBACK, "Host functions of streams and graphs", record.CUDA),
    _nested(
        "host_work",
        types.HOST_WORK,
        "Streams that wait for host functions",
        record.CUDA,
        "When a stream waits for a function of the host: a node of a graph, or a launched function.",
    ),
    *_amounts((types.DECOMPRESSED_BYTES,), record.CUDA),
    _nested("osrt", types.OS_CALL, "OS runtime calls", record.OSRT),
    _nested("file_access", types.FILE_ACCESS, "File accesses", record.FILES),
    _nested("files", types.ACCESSED_FILE, "Files that are accessed", record.FILES, "The file that a thread works on."),
    _plain(
        "scheduling",
        types.CPU_STATE,
        "CPU scheduling",
        record.SCHEDULING,
        "Whether each thread runs, waits for a core or is blocked. Needs `translate --also scheduling`.",
    ),
    _plain(
        "cpu_samples",
        types.CPU_SAMPLE,
        "CPU samples",
        record.SAMPLES,
        "The function in which each sample found the thread. Needs `translate --also cpu_samples`.",
    ),
    _plain(
        "python_samples",
        types.PYTHON_SAMPLE[0],
        "Python samples",
        record.PYTHON,
        "The Python function in which each sample found the thread. Needs `translate --also python_samples`.",
    ),
    _plain(
        "python_cuda",
        types.PYTHON_CUDA[0],
        "Python functions at CUDA calls",
        record.PYTHON_CUDA,
        "The Python function that made each CUDA call. Needs `translate --also python_samples`.",
    ),
    _nested("system_calls", types.SYSTEM_CALL, "System calls", record.SYSTEM_CALLS),
    _nested(
        "os_callers",
        types.OS_CALLERS[0],
        "Callers of OS calls",
        record.OSRT,
        "The function that made each OS call. Needs `translate --also os_callers`.",
    ),
    _nested(
        "overhead",
        types.PROFILER_OVERHEAD,
        "Profiler overhead",
        record.CUDA,
        "When the profiler itself held the program up. Needs `translate --also overhead`.",
    ),
    _plain("gpu_contexts", types.GPU_CONTEXT, "GPU context switches", record.GPU_CONTEXTS),
    _nested(
        "wddm_queue",
        types.WDDM_QUEUE,
        "WDDM: packets in queues",
        record.WDDM,
        "Packets in the queues by which Windows gives work to a GPU. Needs `translate --also wddm_queues`.",
    ),
    _nested(
        "wddm_dma",
        types.WDDM_DMA,
        "WDDM: packets on the GPU",
        record.WDDM,
        "Packets that a GPU works on under Windows. Needs `translate --also wddm_queues`.",
    ),
    _nested(
        "wddm_paging",
        types.WDDM_PAGING,
        "WDDM: paging",
        record.WDDM,
        "Memory that Windows moves to and from a GPU. Needs `translate --also wddm_paging`.",
    ),
    _gpu_metrics(),
    _tensor_estimate(),
    _network(),
    _plain(
        types.WINDOW.key,
        types.WINDOW,
        "Window of interest",
        record.ANYTHING,
        """1 within the window that every analysis refers to: first to last device activity over all ranks, unless the
trace was written with another.""",
    ),
)

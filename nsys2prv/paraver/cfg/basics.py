"""Cfgs of raw events, one or more a family."""

from __future__ import annotations

from collections.abc import Mapping

from nsys2prv.model import event_types as types
from nsys2prv.model import line_tags
from nsys2prv.model.event_type import EventType
from nsys2prv.model.nccl_operation_types import NCCL_DEVICE_OPERATION
from nsys2prv.model.ncu_types import NCU_FIGURES, NCU_JOINED, NCU_STALL
from nsys2prv.paraver.cfg import nsys_options
from nsys2prv.paraver.cfg.look import CODE, GRADIENT, PERCENT, Look
from nsys2prv.paraver.cfg.text import AnyWindow, Cfg, Events, SingleWindow
from nsys2prv.paraver.cfg.windows import MPI_EVENTS, beside, coded, lacking, named, of, stacked, values

DEFAULT_RANGES = named(types.NVTX_DOMAIN.label.format(name=types.DEFAULT_DOMAIN))
PROCESS_RANGES = named(types.NVTX_BY_PROCESS.label.format(name=types.DEFAULT_DOMAIN))
THREAD_RANGES = named(types.NVTX_BY_THREAD.label.format(name=types.DEFAULT_DOMAIN))


SHARE = GRADIENT._replace(scale=PERCENT)


def _cfg(name: str, title: str, about: str, how: str, *windows: AnyWindow) -> Cfg:
    return Cfg("basics", name, title, about, how, windows=windows)


def _nested(name: str, event_type: EventType, title: str, how: str, about: str = "") -> Cfg:
    """Make the cfg of events that nest: the innermost shows."""
    about = about or f"{title} as recorded. Where they nest, the innermost shows."
    return _cfg(name, title, about, how, stacked(event_type.label, of(event_type), look=coded(event_type)))


def _plain(name: str, event_type: EventType, title: str, how: str, about: str = "") -> Cfg:
    """Make the cfg of events that do not nest on a row."""
    shown = values(event_type.label, of(event_type), look=coded(event_type))
    return _cfg(name, title, about or f"{title} as recorded.", how, shown)


def _ranges(name: str, title: str, about: str, events: Events, how: str = nsys_options.NVTX) -> Cfg:
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
    return _cfg("correlation", "CUDA calls with lines to what they launched", about, nsys_options.CUDA, calls)


def _waits() -> Cfg:
    about = """Kernels on their streams, and lines from what a CUDA event recorded to the stream that waits for it.
At full range the lines cover the picture: zoom in."""
    tags = (line_tags.EVENT_WAIT_TAG, line_tags.STREAM_WAIT_TAG)
    kernels = SingleWindow(
        "Kernel, with lines to what waits", of(types.KERNEL), tags=tags, look=Look(open=True, lines=True)
    )
    return _cfg("event_waits", "What waits for what: CUDA events", about, nsys_options.CUDA, kernels)


def _states() -> Cfg:
    about = "What each host thread and stream does, in Paraver's own states. Needs `translate --states`."
    shown = SingleWindow("State", None, function="State As Is", look=CODE)
    return _cfg("states", "States of threads and streams", about, nsys_options.CUDA, shown)


def _by_kind(name: str, title: str, event_types: Mapping[str, EventType], how: str) -> Cfg:
    """Make a cfg with a window for each kind of call: one window cannot tell names of different types apart."""
    first, *others = event_types.values()
    windows: list[AnyWindow] = [stacked(first.label, of(first), look=CODE)]
    windows += [beside(first, stacked(t.label, lacking(t, first)), look=CODE) for t in others]
    about = f"Each kind of {title} event has a window; where they nest, the innermost shows. Empty ones had no events."
    return _cfg(name, f"{title} events by kind", about, how, *windows)


def _memory_in_use() -> Cfg:
    """Make the cfg of memory in use. The kinds that are rare are closed."""
    usual = (types.MEMORY_IN_USE[2], types.MEMORY_IN_USE[1], types.MEMORY_IN_USE[4])
    about = """How much memory each device has in use, until the next change: device, pinned and managed memory; the
windows of other kinds are closed."""
    first, *others = (*usual, *(t for t in types.MEMORY_IN_USE if t not in usual))
    windows: list[AnyWindow] = [values(first.label, of(first), look=GRADIENT)]
    for event_type in others:
        shown = values(event_type.label, lacking(event_type, first))
        windows.append(beside(first, shown, look=GRADIENT._replace(open=event_type in usual)))
    return _cfg("memory_in_use", "Memory in use by kind [B]", about, nsys_options.MEMORY_USAGE, *windows)


def _launch_queues() -> Cfg:
    about = "Number of launched activities that wait on the stream: by color. Needs `translate --also launch_queues`."
    shown = values(types.LAUNCH_QUEUE.label, of(types.LAUNCH_QUEUE), look=GRADIENT)
    return _cfg("launch_queues", "Launch queues", about, nsys_options.CUDA, shown)


def _mpi() -> Cfg:
    about = "MPI calls: point-to-point, collective, one-sided, I/O and others. Where they nest, the innermost shows."
    calls = stacked("MPI call", MPI_EVENTS, look=coded(*types.MPI.values()))
    return _cfg("mpi", "MPI calls", about, nsys_options.MPI, calls)


def _tensor_estimate() -> Cfg:
    about = """Tensor activity [%] of the class of each kernel on its GPU: an estimate from all samples of the run, not
a measurement of this kernel. Kernels of classes without an estimate, or with one of 0, have no value. Traces
of runs with GPU metrics have it."""
    shown = values("Tensor activity of the class [%] (estimate)", of(types.TENSOR_ESTIMATE), look=SHARE)
    title = "Tensor activity of kernels by class (estimate)"
    return _cfg("tensor_estimate", title, about, nsys_options.CUDA_METRICS, shown)


def _ncu() -> Cfg:
    about = """Figures of Nsight Compute on each kernel: those of its launch, the mean of the same kernel, or that of
its class. Needs `translate --ncu FILE`."""
    shares = [
        beside(NCU_JOINED, values(event_type.label, lacking(event_type, NCU_JOINED)), look=SHARE)
        for column in ("sm_percent", "tensor_percent", "occupancy_percent")
        if (event_type := NCU_FIGURES[column])
    ]
    stall = beside(NCU_JOINED, values(NCU_STALL.label, lacking(NCU_STALL, NCU_JOINED)), look=coded(NCU_STALL))
    how = values(NCU_JOINED.label, of(NCU_JOINED), look=coded(NCU_JOINED))
    return _cfg("ncu", "Figures of Nsight Compute on kernels", about, nsys_options.NCU, *shares, stall, how)


def _network() -> Cfg:
    about = """Bytes that a network adapter received, as sampled: a value holds until the next. For another metric
change the event type (Filter, Events, Event type): network metrics are those from 70030000 on."""
    shown = values("Bytes received", named("*Bytes received*"), look=GRADIENT)
    return _cfg("network", "Network metrics: bytes received", about, nsys_options.NETWORK, shown)


CFGS: tuple[Cfg, ...] = (
    _nested("cuda_api", types.CUDA_API, "CUDA API calls", nsys_options.CUDA),
    _plain(
        "kernels_full_name",
        types.KERNEL_FULL_NAME,
        "Kernels by full name",
        nsys_options.CUDA,
        "Kernels, NCCL's too, by demangled name.",
    ),
    _nested("nccl_calls", types.NCCL_CALL, "NCCL calls on the host", nsys_options.NCCL_CALLS),
    _plain(
        "nccl_operations",
        NCCL_DEVICE_OPERATION,
        "NCCL operations on the device",
        nsys_options.NCCL_OPERATIONS,
        "When each operation ran within its kernel, or on a copy engine. Traces of advanced NCCL tracing have it.",
    ),
    _cfg(
        "page_faults",
        "Unified memory: page faults on GPU and CPU",
        """Page faults of the GPU by kind of access, and where a thread touched memory that was on a device: the
function, 1 ns long.""",
        nsys_options.UNIFIED_MEMORY,
        values(types.UM_GPU_FAULT.label, of(types.UM_GPU_FAULT), look=coded(types.UM_GPU_FAULT)),
        beside(
            types.UM_GPU_FAULT,
            values(types.UM_CPU_FAULT.label, lacking(types.UM_CPU_FAULT, types.UM_GPU_FAULT)),
            look=CODE,
        ),
    ),
    _memory_in_use(),
    _cfg(
        "memory_pools",
        "Memory pools: size and use [B]",
        "How large the memory pools of each device are, and how much of them is in use, until the next change.",
        nsys_options.MEMORY_USAGE,
        *(values(t.label, of(t), look=GRADIENT) for t in (types.POOL_SIZE, types.POOL_IN_USE)),
    ),
    _plain(
        "graphs", types.GRAPH, "CUDA graph executions", nsys_options.GRAPH, "Whole graphs; their kernels are hidden."
    ),
    _plain(
        "graph_creation",
        types.GRAPH_CREATION,
        "Creation of CUDA graphs",
        nsys_options.GRAPH_NODES,
        """Graphs and nodes as they are made, 1 ns long: zoom in, or use flags. Needs
`translate --also graph_creation`.""",
    ),
    _nested("synchronization", types.SYNCHRONIZATION, "CUDA synchronization", nsys_options.CUDA),
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
        nsys_options.CUDA_NVTX,
    ),
    _ranges(
        "projection_thread",
        "NVTX ranges on the device, by the launching thread",
        """As `projection`, with the work that the range's own thread launched: NVIDIA's rule. Needs
`translate --also projection_thread`.""",
        THREAD_RANGES,
        nsys_options.CUDA_NVTX,
    ),
    _mpi(),
    _plain(
        "idle_causes",
        types.IDLE_CAUSE,
        "Causes of idle time",
        nsys_options.WAITING,
        "Why each device idles, on its first stream. Needs `translate --also idle_causes`.",
    ),
    _launch_queues(),
    _by_kind("openmp", "OpenMP", types.OPENMP, nsys_options.OPENMP),
    _by_kind("openacc", "OpenACC", types.OPENACC, nsys_options.OPENACC),
    _nested("ucx", types.UCX_CALL, "UCX calls", nsys_options.UCX),
    _nested("cublas", types.CUBLAS_CALL, "cuBLAS calls", nsys_options.CUBLAS),
    _nested("cudnn", types.CUDNN_CALL, "cuDNN calls", nsys_options.CUDNN),
    _nested(
        "jit",
        types.JIT_COMPILATION,
        "JIT compilation",
        nsys_options.CUDA,
        "When threads wait for kernels to be compiled.",
    ),
    _nested("host_functions", types.HOST_CALLBACK, "Host functions of streams and graphs", nsys_options.CUDA),
    _nested(
        "host_work",
        types.HOST_WORK,
        "Streams that wait for host functions",
        nsys_options.CUDA,
        "When a stream waits for a function of the host: a node of a graph, or a launched function.",
    ),
    _plain(
        "decompression",
        types.DECOMPRESSED_BYTES,
        "Memory decompression: compressed bytes",
        nsys_options.CUDA,
        "Bytes that the device decompresses.",
    ),
    _nested("osrt", types.OS_CALL, "OS runtime calls", nsys_options.OSRT),
    _nested(
        "pthreads",
        types.PTHREAD_CALL,
        "Pthread calls",
        nsys_options.OSRT,
        "Pthread calls, which are among the OS runtime calls otherwise. Needs `translate --public-types`.",
    ),
    _cfg(
        "files",
        "File accesses, and the files",
        "Accesses to files by kind, and the file that a thread works on.",
        nsys_options.FILES,
        *(stacked(t.label, of(t), look=CODE) for t in (types.FILE_ACCESS, types.ACCESSED_FILE)),
    ),
    _plain(
        "scheduling",
        types.CPU_STATE,
        "CPU scheduling",
        nsys_options.SCHEDULING,
        "Whether each thread runs, waits for a core or is blocked. Needs `translate --also scheduling`.",
    ),
    _plain(
        "cpu_samples",
        types.CPU_SAMPLE,
        "CPU samples",
        nsys_options.SAMPLES,
        "The function in which each sample found the thread. Needs `translate --also cpu_samples`.",
    ),
    _plain(
        "python_samples",
        types.PYTHON_SAMPLE[0],
        "Python samples",
        nsys_options.PYTHON,
        "The Python function in which each sample found the thread. Needs `translate --also python_samples`.",
    ),
    _plain(
        "python_cuda",
        types.PYTHON_CUDA[0],
        "Python functions at CUDA calls",
        nsys_options.PYTHON_CUDA,
        "The Python function that made each CUDA call. Needs `translate --also python_samples`.",
    ),
    _nested("system_calls", types.SYSTEM_CALL, "System calls", nsys_options.SYSTEM_CALLS),
    _nested(
        "os_callers",
        types.OS_CALLERS[0],
        "Callers of OS calls",
        nsys_options.OSRT,
        "The function that made each OS call. Needs `translate --also os_callers`.",
    ),
    _nested(
        "overhead",
        types.PROFILER_OVERHEAD,
        "Profiler overhead",
        nsys_options.CUDA,
        "When the profiler itself held the program up. Needs `translate --also overhead`.",
    ),
    _plain("gpu_contexts", types.GPU_CONTEXT, "GPU context switches", nsys_options.GPU_CONTEXTS),
    _cfg(
        "wddm",
        "WDDM: packets in queues and on the GPU, paging",
        """Packets in the queues by which Windows gives work to a GPU, those that a GPU works on, and memory that it
moves to and from a GPU. Needs `translate --also wddm_queues`, and for paging `translate --also wddm_paging`.""",
        nsys_options.WDDM,
        stacked(types.WDDM_QUEUE.label, of(types.WDDM_QUEUE), look=CODE),
        *(
            beside(types.WDDM_QUEUE, stacked(k.label, lacking(k, types.WDDM_QUEUE)), look=CODE)
            for k in (types.WDDM_DMA, types.WDDM_PAGING)
        ),
    ),
    _tensor_estimate(),
    _ncu(),
    _network(),
    _plain(
        types.WINDOW.key,
        types.WINDOW,
        "Window of interest",
        nsys_options.ANYTHING,
        """1 within the window that every analysis refers to: the steady iterations of all ranks, unless the
trace was written with another.""",
    ),
)

"""Every event type of a trace: number, label, fixed values.

Numbers below 70,000,000 are those of the public nsys2prv and of Extrae, so that existing cfgs and tools find what they
look for; four labels (`CUDA library call`, `CUDA memcpy kernel`, `CUDA kernel`, `NCCL kernel`) are literal for the same
reason. From 70,000,000 on they are our own. Where the public tool has another number, `nsys2prv/model/public_types.py`
has it.
"""

from __future__ import annotations

from nsys2prv.model.event_type import DECLARED_TYPES, IDLE_LABEL, EventType, NumberedBy, TypeBlock
from nsys2prv.model.function_numbers import MPI_VALUES, PTHREAD_VALUES
from nsys2prv.model.nccl_operation_types import DEVICE_OPERATION_ATTRIBUTES, NCCL_DEVICE_OPERATION  # noqa: F401
from nsys2prv.model.ncu_types import NCU_FIGURES, NCU_JOINED, NCU_STALL  # noqa: F401
from nsys2prv.model.table_columns import EFFICIENCY_FACTORS, WINDOW_VALUES

CUDA_API = EventType("cuda_api", 63000000, "CUDA library call", labelled=True)
MEMORY = EventType(
    "memory",
    63000001,
    "CUDA memcpy kernel",
    {
        3: "Device-to-Device",
        4: "Device-to-Host",
        5: "Host-to-Device",
        6: "Memset",
        7: "Host-to-Array",
        8: "Array-to-Host",
        9: "Array-to-Array",
        10: "Array-to-Device",
        11: "Device-to-Array",
        12: "Host-to-Host",
        13: "Peer-to-Peer",
        14: "Unified Host-to-Device",
        15: "Unified Device-to-Host",
        16: "Unified Device-to-Device",
        17: "Unknown",
    },
    ended=IDLE_LABEL,
)
MEMORY_BYTES = EventType("memory_bytes", 63000002, "CUDA memory operation: bytes")
KERNEL = EventType("kernel", 63000006, "CUDA kernel", labelled=True, ended=IDLE_LABEL)
NCCL_KERNEL = EventType(
    "nccl_kernel", 63000007, "NCCL kernel", labelled=True, numbered_by=NumberedBy.OPERATION, ended=IDLE_LABEL
)
GRAPH = EventType("graph", 63000008, "CUDA graph execution", labelled=True, ended=IDLE_LABEL)
GRAPH_ID = EventType("graph_id", 63000100, "CUDA graph id")
GRAPH_EXEC = EventType("graph_exec", 63000101, "CUDA graph exec id")
GRAPH_NODE = EventType("graph_node", 63000102, "CUDA graph node id")

GRID = tuple(EventType(f"grid_{a}", 9101 + i, f"Kernel: grid {a}") for i, a in enumerate("xyz"))
BLOCK = tuple(EventType(f"block_{a}", 9104 + i, f"Kernel: block {a}") for i, a in enumerate("xyz"))
STATIC_SHARED = EventType("static_shared", 9107, "Kernel: static shared memory [B]")
DYNAMIC_SHARED = EventType("dynamic_shared", 9108, "Kernel: dynamic shared memory [B]")
LOCAL_MEMORY = EventType("local_memory", 9109, "Kernel: local memory per thread [B]")
REGISTERS = EventType("registers", 9110, "Kernel: registers per thread")
CORRELATION = EventType("correlation", 9200, "Correlation id", unique=True)

NVTX_RANGE = EventType("nvtx_range", 9004, "NVTX start/end range", labelled=True)
GPU_METRIC = TypeBlock("gpu_metric", 9400, 1, 100, 71000000, "{name}")
NCCL_CALL = EventType("nccl_call", 9500, "NCCL call", labelled=True, numbered_by=NumberedBy.OPERATION)
NCCL_COMMUNICATOR = EventType("nccl_communicator", 9501, "NCCL: communicator", labelled=True)
NCCL_BYTES = EventType("nccl_bytes", 9502, "NCCL: message size [B]")
NCCL_OPERATION = EventType(
    "nccl_operation",
    9503,
    "NCCL: operation",
    {
        1: "AllReduce",
        2: "Broadcast",
        3: "Reduce",
        4: "AllGather",
        5: "ReduceScatter",
        6: "AlltoAll",
        7: "Gather",
        8: "Scatter",
        9: "Send",
        10: "Recv",
        11: "Send and Recv",
        12: "Several",
    },
)
NCCL_REDUCTION = EventType(
    "nccl_reduction",
    9504,
    "NCCL: reduction",
    {1: "Sum", 2: "Product", 3: "Max", 4: "Min", 5: "Avg", 6: "PreMulSum", 7: "Other"},
)
# 0 ends an event, so that rank 0 is 1 here.
NCCL_ROOT = EventType("nccl_root", 9505, "NCCL: root (rank + 1)")
NCCL_PEER = EventType("nccl_peer", 9506, "NCCL: peer (rank + 1)")
NCCL_MEMBERS = EventType("nccl_members", 9507, "NCCL: operations in the kernel")
NCCL_SEQUENCE = EventType(
    "nccl_sequence", 9508, "NCCL: sequence number of the collective on its communicator", unique=True
)
NCCL_ALGORITHM_BANDWIDTH = EventType("nccl_algbw", 9509, "NCCL: algorithm bandwidth [MB/s]", precision=6, unique=True)
NCCL_BUS_BANDWIDTH = EventType("nccl_busbw", 9510, "NCCL: bus bandwidth [MB/s]", precision=6, unique=True)
DEFAULT_DOMAIN = "default"  # Of NVTX's nameless domain.
NVTX_DOMAIN = TypeBlock("nvtx", 9600, 100, 104, 20000, "NVTX {name}", labelled=True)

MPI = {
    name: EventType(f"mpi_{name}", number, label, MPI_VALUES, labelled=True, numbered_by=NumberedBy.OPERATION)
    for name, number, label in (
        ("p2p", 50000001, "MPI Point-to-point"),
        ("collective", 50000002, "MPI Collective Comm"),
        ("other", 50000003, "MPI Other"),
        ("rma", 50000004, "MPI One-sided"),
        ("io", 50000005, "MPI I/O"),
    )
}
MPI_SEND_SIZE = EventType("mpi_send_size", 50100001, "Send Size in MPI Global OP")
MPI_RECV_SIZE = EventType("mpi_recv_size", 50100002, "Recv Size in MPI Global OP")
MPI_ROOT = EventType("mpi_root", 50100003, "Root in MPI Global OP", {1: "root"})
MPI_COMMUNICATOR = EventType("mpi_communicator", 50100004, "Communicator in MPI Global OP", labelled=True)

WINDOW = EventType("window", 70000000, "Window of interest", WINDOW_VALUES)
KERNEL_FULL_NAME = EventType("kernel_full_name", 70000001, "CUDA kernel (full name)", labelled=True, ended=IDLE_LABEL)
MEMORY_THROUGHPUT = EventType(
    "memory_throughput", 70000002, "CUDA memory operation: throughput [MB/s]", precision=6, unique=True
)
OS_CALL = EventType("os_call", 70000003, "OS runtime call", labelled=True)
# With the public tool's numbers (nsys2prv/model/public_types.py) alone: else they are OS calls, too.
PTHREAD_CALL = EventType("pthread_call", 61000000, "Pthread call", PTHREAD_VALUES, labelled=True)
SYNCHRONIZATION = EventType(
    "synchronization",
    70000004,
    "CUDA synchronization",
    {
        1: "Event synchronize",
        2: "Stream wait event",
        3: "Stream synchronize",
        4: "Context synchronize",
        5: "Unknown",
    },
)
NVTX_MARK = EventType("nvtx_mark", 70000005, "NVTX mark", labelled=True)
OPENMP = {
    "parallel": EventType("openmp_parallel", 70000006, "OpenMP parallel region", labelled=True),
    "task": EventType("openmp_task", 70000241, "OpenMP task", labelled=True),
    "worksharing": EventType("openmp_worksharing", 70000242, "OpenMP worksharing", labelled=True),
    "synchronization": EventType("openmp_synchronization", 70000243, "OpenMP synchronization", labelled=True),
    "waiting": EventType("openmp_waiting", 70000244, "OpenMP waiting", labelled=True),
    "critical": EventType("openmp_critical", 70000245, "OpenMP critical section", labelled=True),
    "event": EventType("openmp_event", 70000246, "OpenMP event", labelled=True),
}
KERNEL_CLASS = EventType(
    "kernel_class", 70000100, "Kernel class", labelled=True, numbered_by=NumberedBy.CLASS, ended=IDLE_LABEL
)
KERNEL_FAMILY = EventType(
    "kernel_family", 70000101, "Kernel class: family", labelled=True, numbered_by=NumberedBy.CLASS, ended=IDLE_LABEL
)
# A metric holds until its next sample. This is 0 from one period after the last one on, and so in pauses.
METRICS_SAMPLED = EventType("metrics_sampled", 70000121, "GPU metrics: sampled", {1: "sampled"}, ended="not sampled")
# The mean while kernels of the class run on the GPU, not a measurement of this kernel: see docs/analysis.md.
TENSOR_ESTIMATE = EventType(
    "tensor_estimate", 70000120, "Tensor activity of the kernel's class [%] (estimate)", precision=2
)
# ENUM_CUDA_MEM_KIND plus one: 0 would not be written. Its `Unknown` is not written either.
_KINDS = "Pageable,Pinned,Device,Array,Managed,Device static,Managed static"
_MEMORY_KINDS = dict(enumerate(_KINDS.split(","), 1))
MEMORY_SOURCE = EventType("memory_source", 70000102, "CUDA memory operation: source", _MEMORY_KINDS)
MEMORY_DESTINATION = EventType("memory_destination", 70000103, "CUDA memory operation: destination", _MEMORY_KINDS)
NVTX_CATEGORY = EventType("nvtx_category", 70000104, "NVTX category", labelled=True)
NVTX_COLOR = EventType("nvtx_color", 70000105, "NVTX color (red * 65536 + green * 256 + blue)")
NVTX_PAYLOAD = EventType("nvtx_payload", 70000106, "NVTX payload", unique=True)
NVTX_PAYLOAD_REAL = EventType("nvtx_payload_real", 70000107, "NVTX payload (real)", precision=6, unique=True)
GRAPH_CREATION = EventType(
    "graph_creation",
    70000108,
    "CUDA graph creation",
    {1: "Graph created", 2: "Graph cloned", 3: "Graph instantiated", 4: "Node created", 5: "Node cloned"},
)
GRAPH_ORIGINAL = EventType("graph_original", 70000109, "CUDA graph: id of what was cloned")
RANGE_BY_PROCESS = EventType("range_by_process", 70000110, "NVTX start/end range on the device", labelled=True)
RANGE_BY_THREAD = EventType(
    "range_by_thread", 70000111, "NVTX start/end range on the device, own thread's work", labelled=True
)
RANGE_KERNELS = EventType("range_kernels", 70000112, "NVTX range on the device: kernels")

# Blocks numbered by NVTX domain, d as in NVTX_DOMAIN.
NVTX_BY_PROCESS = TypeBlock("nvtx_by_process", 70100000, 1, 10000, 73000000, "NVTX {name} on the device", labelled=True)
NVTX_BY_THREAD = TypeBlock(
    "nvtx_by_thread", 70110000, 1, 10000, 74000000, "NVTX {name} on the device, own thread's work", labelled=True
)
DOMAIN_BLOCKS = (NVTX_DOMAIN, NVTX_BY_PROCESS, NVTX_BY_THREAD)
MPI_SEQUENCE = EventType(
    "mpi_sequence", 70000190, "MPI: sequence number of the collective on its communicator", unique=True
)
CPU_STATE = EventType(
    "cpu_state",
    70000200,
    "CPU scheduling",
    {
        1: "Running",
        2: "Ready",
        3: "Blocked",
        4: "Blocked (uninterruptible)",
        5: "Stopped",
        6: "Off the core (no reason recorded)",
    },
)
CPU_CORE = EventType("cpu_core", 70000201, "CPU core", labelled=True)
CPU_SAMPLE = EventType("cpu_sample", 70000210, "CPU sample: function", labelled=True)
CPU_CALLERS = tuple(
    EventType(f"cpu_caller_{n}", 70000210 + n, f"CPU sample: caller {n}", labelled=True) for n in range(1, 8)
)
CUBLAS_CALL = EventType("cublas_call", 70000220, "cuBLAS call", labelled=True)
CUDNN_CALL = EventType("cudnn_call", 70000221, "cuDNN call", labelled=True)
UCX_CALL = EventType("ucx_call", 70000222, "UCX call", labelled=True, numbered_by=NumberedBy.OPERATION)
JIT_COMPILATION = EventType("jit_compilation", 70000225, "JIT compilation", labelled=True)
HOST_CALLBACK = EventType("host_callback", 70000226, "Host function of a stream or graph", labelled=True)
HOST_WORK = EventType(
    "host_work",
    70000227,
    "Stream waits for a host function",
    {1: "Host node of a graph", 2: "Launched host function"},
)
DECOMPRESSION = EventType("decompression", 70000228, "Memory decompression: operations")
DECOMPRESSED_BYTES = EventType("decompressed_bytes", 70000229, "Memory decompression: compressed bytes [B]")
FILE_ACCESS = EventType("file_access", 70000261, "File access: call", labelled=True)
ACCESSED_FILE = EventType("accessed_file", 70000262, "File access: file", labelled=True)
ACCESSED_BYTES = EventType("accessed_bytes", 70000263, "File access: bytes read or written [B]")
# By ENUM_WDDM_PACKET_TYPE + 1 and ENUM_WDDM_ENGINE_TYPE + 1, since 0 ends a packet.
_PACKETS = "Render,Deferred,System,MMIO flip,Wait,Signal,Device,Software,Unknown"
_ENGINES = "Other,3D,Video decode,Video encode,Video processing,Scene assembly,Copy,Overlay,Crypto,Unknown"
WDDM_QUEUE = EventType("wddm_queue", 70000264, "WDDM: packet in a queue", dict(enumerate(_PACKETS.split(","), 1)))
WDDM_DMA = EventType("wddm_dma", 70000265, "WDDM: packet on the GPU", dict(enumerate(_PACKETS.split(","), 1)))
WDDM_ENGINE = EventType("wddm_engine", 70000266, "WDDM: engine of a packet", dict(enumerate(_ENGINES.split(","), 1)))
WDDM_PAGING = EventType("wddm_paging", 70000267, "WDDM: paging operation", labelled=True)
UCX_BYTES = EventType("ucx_bytes", 70000223, "UCX: message size [B]")
UCX_PEER = EventType("ucx_peer", 70000224, "UCX: peer's worker", labelled=True)
OPENACC = {
    "data": EventType("openacc_data", 66000001, "OpenACC data", labelled=True),
    "launch": EventType("openacc_launch", 66000002, "OpenACC launch", labelled=True),
    "other": EventType("openacc_other", 66000000, "OpenACC other", labelled=True),
}
OPENACC_BYTES = EventType("openacc_bytes", 66300001, "OpenACC data: bytes")
OPENACC_VARIABLE = EventType("openacc_variable", 66000004, "OpenACC data: variable", labelled=True)
OPENACC_KERNEL = EventType("openacc_kernel", 66000005, "OpenACC launch: kernel", labelled=True)
OPENACC_GANGS = EventType("openacc_gangs", 66000006, "OpenACC launch: gangs")
OPENACC_WORKERS = EventType("openacc_workers", 66000007, "OpenACC launch: workers")
OPENACC_VECTOR = EventType("openacc_vector", 66000008, "OpenACC launch: vector length")
OS_CALLERS = tuple(
    EventType(f"os_caller_{n}", 70000250 + n, f"OS runtime call: caller {n}", labelled=True) for n in range(1, 8)
)
SYSTEM_CALL = EventType("system_call", 70000260, "System call", labelled=True)
PYTHON_SAMPLE = tuple(
    EventType(f"python_sample_{n}", 70000270 + n, f"Python sample: {part}", labelled=True)
    for n, part in enumerate(["function", *(f"caller {n}" for n in range(1, 8))])
)
PYTHON_STATE = EventType(
    "python_state",
    70000278,
    "Python sample: state of the thread",
    {1: "Running", 2: "Blocking wait", 3: "Uninterruptible"},
)
PYTHON_CUDA = tuple(
    EventType(f"python_cuda_{n}", 70000280 + n, f"Python at a CUDA call: {part}", labelled=True)
    for n, part in enumerate(["function", *(f"caller {n}" for n in range(1, 8))])
)
GPU_CONTEXT = EventType("gpu_context", 70000230, "GPU context on the GPU", labelled=True)
PROFILER_OVERHEAD = EventType("profiler_overhead", 70000231, "Profiler overhead", labelled=True)
# On the rows of NCCL's kernels and MPI calls: see docs/analysis.md.
WAITING = EventType("waiting", 70000400, "Waiting or transferring", {1: "Waiting", 2: "Transferring"})
WAITED_FOR = EventType("waited_for", 70000401, "Rank waited for", labelled=True)
# At the begin of a trace. The first names the columns of tables of efficiency, one ns each, the second is always 0.
EFFICIENCY_FACTOR = EventType("efficiency_factor", 70000402, "Factor of efficiency", EFFICIENCY_FACTORS)
NOTHING = EventType("nothing", 70000403, "Nothing")
CRITICAL_PATH = EventType(
    "critical_path",
    70000410,
    "Critical path",
    {
        1: "transfer",
        2: "launch latency",
        3: "host work",
        4: "synchronization",
        5: "copy",
        6: "unexplained",
    },
    labelled=True,
    # Compute has the names and numbers of kernel families.
    numbered_by=NumberedBy.CLASS,
)
LAUNCH_QUEUE = EventType("launch_queue", 70000412, "Launched work that waits on the stream")
IDLE_CAUSE = EventType(
    "idle_cause",
    70000411,
    "Cause of idle time",
    {1: "launch-starved", 2: "dependency", 3: "communication", 4: "host synchronization", 5: "unexplained"},
)
UM_CPU_FAULT = EventType("um_cpu_fault", 70000300, "Unified memory: page fault on the CPU, in", labelled=True)
UM_GPU_FAULT = EventType(
    "um_gpu_fault",
    70000301,
    "Unified memory: page faults on the GPU",
    {1: "Read", 2: "Write", 3: "Atomic", 4: "Prefetch", 5: "Unknown"},
)
UM_GPU_FAULTS = EventType("um_gpu_faults", 70000302, "Unified memory: number of page faults")
MEMORY_IN_USE = tuple(  # By ENUM_CUDA_MEM_KIND.
    EventType(f"memory_in_use_{n}", 70000310 + n, f"Memory in use: {kind} [B]")
    for n, kind in enumerate(
        ["pageable", "pinned", "device", "array", "managed", "device static", "managed static", "unknown kind"]
    )
)
POOL_SIZE = EventType("pool_size", 70000320, "Memory pools: size [B]")
POOL_IN_USE = EventType("pool_in_use", 70000321, "Memory pools: in use [B]")
POOL_OPERATION = EventType(
    "pool_operation", 70000322, "Memory pools: operation", {1: "Created", 2: "Destroyed", 3: "Trimmed", 4: "Unknown"}
)
NETWORK_METRIC = TypeBlock("network_metric", 70030000, 1, 1000, 72000000, "{name}")
# The number in a range's text, for domains with more texts than can be told apart by label.
NVTX_NUMBER = TypeBlock("nvtx_number", 70010000, 1, 10000, 75000000, "{name}: number in the text")

# By key. Those of the modules that are imported above are among them.
EVENT_TYPES: dict[str, EventType] = DECLARED_TYPES
BLOCKS: dict[str, TypeBlock] = {b.key: b for b in (GPU_METRIC, *DOMAIN_BLOCKS, NETWORK_METRIC, NVTX_NUMBER)}

# Types whose value holds until the next one, 0 too; for all others 0 ends what was begun.
HELD_TYPES = (
    range(GPU_METRIC.number, GPU_METRIC.number + GPU_METRIC.size),
    range(NETWORK_METRIC.number, NETWORK_METRIC.number + NETWORK_METRIC.size),
    # GPU and network metrics beyond the size of the blocks above.
    range(GPU_METRIC.further, NVTX_BY_PROCESS.further),
    *(range(t.number, t.number + 1) for t in (METRICS_SAMPLED, NOTHING, *MEMORY_IN_USE, POOL_SIZE, POOL_IN_USE)),
)


def block_and_name(key: str) -> tuple[TypeBlock, str] | None:
    """Return block and name behind a key such as `nvtx:NCCL`; None for the key of a fixed type."""
    name, colon, rest = key.partition(":")
    return (BLOCKS[name], rest) if colon else None


def is_labelled(key: str) -> bool:
    """Return True if the values of a type are labels that the trace numbers."""
    found = block_and_name(key)
    return found[0].labelled if found else EVENT_TYPES[key].labelled


def is_unique(key: str) -> bool:
    """Return True if hardly two events have the same value of a type."""
    return block_and_name(key) is None and EVENT_TYPES[key].unique

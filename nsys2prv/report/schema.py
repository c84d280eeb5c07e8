"""The tables of an Nsight Systems export: columns, types, and defaults for columns that a version lacks.

Versions add, rename or drop columns. All of that is declared here and nowhere else. A column that an export
lacks is read as its default, or under one of its other names. Source: NVIDIA's exported-data documentation and real
exports of schema 3.4.0 to 3.25.0, and its documentation of 3.30.1.
"""

from __future__ import annotations

from nsys2prv.report.declaration import Column, Cut, Table

INT = Column()
TEXT = Column("text")
REAL = Column("real")
BLOB = Column("blob")
ZERO = Column(default=0)
NEEDED = Column(required=True)
EXPECTED = Column(expected=True)
EXPECTED_TEXT, EXPECTED_ZERO = Column("text", expected=True), Column(default=0, expected=True)


def _integers(names: str) -> dict[str, Column]:
    return dict.fromkeys(names.split(), INT)


_SPAN = {"start": NEEDED, "end": NEEDED}
_DEVICE = {"globalPid": EXPECTED, "deviceId": NEEDED, "contextId": ZERO, "streamId": NEEDED, "correlationId": EXPECTED}

STRINGS = Table("StringIds", {"id": NEEDED, "value": TEXT})
SESSION = Table("TARGET_INFO_SESSION_START_TIME", _integers("utcEpochNs systemClockNs"))
SYSTEM = Table("TARGET_INFO_SYSTEM_ENV", {"name": TEXT, "value": TEXT})
CAPTURE = Table("META_DATA_CAPTURE", {"name": TEXT, "value": TEXT})
EXPORT = Table("META_DATA_EXPORT", {"name": TEXT, "value": TEXT}, aliases=("EXPORT_META_DATA",))
PROCESSES = Table("PROCESSES", {"globalPid": NEEDED, "pid": INT, "name": TEXT})
THREAD_NAMES = Table("ThreadNames", {"nameId": INT, "globalTid": NEEDED})
GPUS = Table(
    "TARGET_INFO_GPU",
    {
        "id": Column(aliases=("deviceId",)),
        **_integers("smCount totalMemory maxWarpsPerSm maxRegistersPerSm maxShmemPerSm maxBlocksPerSm"),
        **dict.fromkeys(["name", "busLocation", "uuid"], TEXT),
    },
)
CUDA_DEVICES = Table("TARGET_INFO_CUDA_DEVICE", _integers("gpuId cudaId pid"))
CUDA_CONTEXTS = Table("TARGET_INFO_CUDA_CONTEXT_INFO", _integers("processId deviceId"))
CUDA_STREAMS = Table("TARGET_INFO_CUDA_STREAM", _integers("streamId processId contextId flag"))
MPI_RANKS = Table("MPI_RANKS", {"globalTid": NEEDED, "rank": NEEDED})
MPI_COMMUNICATORS = Table(
    "MPI_COMMUNICATORS",
    {"commHandle": NEEDED, **_integers("rank timestamp parentHandle localRank size groupRoot groupRootUid")},
)
# Names of the results of CUDA calls; exports of 2025 have no such table.
CUDA_RESULTS = Table("ENUM_CUDA_RESULT", {"id": NEEDED, "name": TEXT})
DIAGNOSTICS = Table("DIAGNOSTIC_EVENT", {"severity": INT, "text": TEXT, "globalPid": INT})

RUNTIME = Table(
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    {**_SPAN, "globalTid": NEEDED, "correlationId": EXPECTED, "nameId": NEEDED, "returnValue": ZERO},
    time="start",
    cut=Cut.BY_CALL,
)
KERNEL = Table(
    "CUPTI_ACTIVITY_KIND_KERNEL",
    {
        **_SPAN,
        **_DEVICE,
        "shortName": NEEDED,
        "demangledName": EXPECTED,
        **dict.fromkeys(["registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"], ZERO),
        **dict.fromkeys(["staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread"], ZERO),
        "graphNodeId": INT,
    },
    time="start",
    cut=Cut.BY_CALL,
    zero_is_no_time=True,
)
MEMCPY = Table(
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    {**_SPAN, **_DEVICE, "bytes": EXPECTED_ZERO, "copyKind": EXPECTED_ZERO, **_integers("srcKind dstKind graphNodeId")},
    time="start",
    cut=Cut.BY_CALL,
    zero_is_no_time=True,
)
MEMSET = Table(
    "CUPTI_ACTIVITY_KIND_MEMSET",
    {**_SPAN, **_DEVICE, "bytes": EXPECTED_ZERO, **_integers("memKind graphNodeId")},
    time="start",
    cut=Cut.BY_CALL,
    zero_is_no_time=True,
)
SYNCHRONIZATION = Table(
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    {
        **_SPAN,
        "globalPid": EXPECTED,
        **_integers("deviceId contextId streamId"),
        "correlationId": EXPECTED,
        "syncType": ZERO,
        **_integers("eventId eventSyncId"),
    },
    time="start",
    cut=Cut.BY_CALL,
)
# NVTX_EVENTS.eventType (ENUM_NSYS_EVENT_TYPE); of each pair the second were imported from text files (nvtxt).
PUSH_POP, START_END, MARKS = (59, 70), (60, 71), (34, 65)
RANGES_AND_MARKS = (*PUSH_POP, *START_END, *MARKS)
# Rows that name something, and may be older than the run: categories, threads (39, 76), domains.
CATEGORY_NAME, DOMAIN_NAME = 33, 75
NVTX_NAMES = (CATEGORY_NAME, 39, DOMAIN_NAME, 76)
NVTX = Table(
    "NVTX_EVENTS",
    {
        "start": NEEDED,
        "end": EXPECTED,
        "eventType": NEEDED,
        "text": EXPECTED_TEXT,
        "textId": INT,
        "globalTid": EXPECTED,
        "domainId": ZERO,
        "jsonText": TEXT,
        "jsonTextId": INT,
        **_integers("endGlobalTid category color uint64Value int64Value uint32Value int32Value"),
        "doubleValue": REAL,
        "floatValue": REAL,
        "binaryData": BLOB,
    },
    time="start",
    cut=Cut.BY_TIME,
    in_all_slices=("eventType", (CATEGORY_NAME, DOMAIN_NAME)),
)
PAYLOAD_ENTRIES = Table(
    "NVTX_PAYLOAD_SCHEMA_ENTRIES",
    {"domainId": INT, "schemaId": NEEDED, "type": NEEDED, "name": TEXT, "offset": ZERO},
)
PAYLOAD_ENUMS = Table("NVTX_PAYLOAD_ENUMS", {"domainId": INT, "schemaId": NEEDED, "size": Column(default=4)})
PAYLOAD_ENUM_ENTRIES = Table(
    "NVTX_PAYLOAD_ENUM_ENTRIES", {"domainId": INT, "schemaId": NEEDED, "name": TEXT, "value": ZERO}
)
OSRT = Table(
    "OSRT_API", {**_SPAN, "globalTid": NEEDED, "nameId": NEEDED, "callchainId": ZERO}, time="start", cut=Cut.BY_TIME
)
SYSCALLS = Table("SYSCALL", {**_SPAN, "globalTid": INT, "nameId": INT}, time="start", cut=Cut.BY_TIME)
METRIC_NAMES = Table("TARGET_INFO_GPU_METRICS", {"typeId": NEEDED, "metricId": NEEDED, "metricName": TEXT})
METRICS = Table(
    "GPU_METRICS",
    {"timestamp": NEEDED, "typeId": NEEDED, "metricId": NEEDED, "value": NEEDED},
    time="timestamp",
    cut=Cut.BY_TIME,
)

_MPI = {**_SPAN, "globalTid": NEEDED, "textId": NEEDED}
_MPI_MESSAGE = {**_MPI, **_integers("commHandle tag remoteRank size requestHandle"), "size": EXPECTED}
MPI_P2P = Table("MPI_P2P_EVENTS", _MPI_MESSAGE, time="start")
MPI_WAIT = Table("MPI_START_WAIT_EVENTS", {**_MPI, "requestHandle": INT}, time="start")
MPI_COLLECTIVE = Table(
    "MPI_COLLECTIVES_EVENTS", {**_MPI, **_integers("commHandle rootRank size recvSize requestHandle")}, time="start"
)
MPI_OTHER = Table("MPI_OTHER_EVENTS", _MPI, time="start")

_CALL = {**_SPAN, "globalTid": INT, "nameId": INT}
OPENMP = {
    part: Table(f"OPENMP_EVENT_KIND_{part}", _CALL, time="start", cut=Cut.BY_TIME)
    for part in [
        "PARALLEL",
        "TASK",
        "WORKSHARE",
        "SYNC_REGION",
        "SYNC_REGION_WAIT",
        "TASK_CREATE",
        "TASK_SCHEDULE",
        "CANCEL",
        "MUTEX_WAIT",
        "MUTEX_RELEASED",
        "CRITICAL_SECTION",
        "LOCK_INIT",
        "LOCK_DESTROY",
        "MASTER",
        "REDUCTION",
        "DISPATCH",
        "FLUSH",
        "THREAD",
    ]
}
# One row an event record; when it happened is the time of its API call (a column of its own only since 2026.2).
CUDA_EVENT = Table(
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    _integers("globalPid deviceId contextId streamId correlationId eventId eventSyncId"),
    cut=Cut.BY_CALL,
)
GRAPH_TRACE = Table(
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    {**_SPAN, **_DEVICE, **_integers("graphId graphExecId")},
    time="start",
    cut=Cut.BY_CALL,
    zero_is_no_time=True,
)
# Work of the host that a stream waits for: a node of a graph, or (without a node) a launched function.
HOST_NODES = Table(
    "CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE_AND_HOST_LAUNCH",
    {**_SPAN, **_DEVICE, **_integers("graphNodeId graphId")},
    time="start",
    cut=Cut.BY_TIME,
)
DECOMPRESSION = Table(
    "CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS",
    {**_SPAN, **_DEVICE, "sourceBytes": ZERO, "NumberOfOperations": ZERO},
    time="start",
    cut=Cut.BY_TIME,
)
_CREATION = {"start": NEEDED, "globalTid": INT, **_integers("eventClass")}
GRAPH_EVENTS = Table(
    "CUDA_GRAPH_EVENTS", {**_CREATION, **_integers("graphId originalGraphId graphExecId")}, time="start"
)
GRAPH_NODE_EVENTS = Table(
    "CUDA_GRAPH_NODE_EVENTS",
    {**_CREATION, **_integers("graphNodeId originalGraphNodeId")},
    time="start",
    cut=Cut.NOT,
)

SCHEDULING = Table(
    "SCHED_EVENTS",
    {"start": NEEDED, "cpu": EXPECTED, "isSchedIn": NEEDED, "globalTid": EXPECTED, "threadState": INT},
    time="start",
    cut=Cut.BY_TIME,
)
CPU_SAMPLES = Table("COMPOSITE_EVENTS", {"id": NEEDED, "start": NEEDED, "globalTid": EXPECTED}, time="start")
_STACKS = {"id": NEEDED, "symbol": NEEDED, "module": INT, "unresolved": ZERO, "stackDepth": NEEDED}
CPU_STACKS = Table("SAMPLING_CALLCHAINS", _STACKS)
OSRT_STACKS = Table("OSRT_CALLCHAINS", _STACKS)
CONTEXT_SWITCHES = Table(
    "GPU_CONTEXT_SWITCH_EVENTS",
    {"timestamp": NEEDED, "tag": NEEDED, "seqNo": ZERO, "contextId": ZERO, "globalPid": INT, "gpuId": ZERO},
    time="timestamp",
)
JIT = Table("CUPTI_ACTIVITY_KIND_JIT", _CALL, time="start", cut=Cut.BY_TIME)
HOST_CALLBACKS = Table("CUDA_HOST_CALLBACK", _CALL, time="start", cut=Cut.BY_TIME)
PROFILER_OVERHEAD = Table("PROFILER_OVERHEAD", _CALL, time="start", cut=Cut.BY_TIME)
CUPTI_OVERHEAD = Table("CUPTI_ACTIVITY_KIND_OVERHEAD", _CALL, time="start", cut=Cut.BY_TIME)
CUBLAS = Table("CUBLAS_EVENTS", _CALL, time="start", cut=Cut.BY_TIME)
CUDNN = Table("CUDNN_EVENTS", _CALL, time="start", cut=Cut.BY_TIME)

_UCP = {**_SPAN, "globalTid": INT, "textId": INT}
_UCP_MESSAGE = {**_UCP, **_integers("packedSize peerWorkerUid")}
UCP_SUBMIT = Table("UCP_SUBMIT_EVENTS", _UCP_MESSAGE, time="start", cut=Cut.BY_TIME)
UCP_PROGRESS = Table("UCP_PROGRESS_EVENTS", _UCP_MESSAGE, time="start", cut=Cut.BY_TIME)
UCP_OTHER = Table("UCP_EVENTS", _UCP, time="start", cut=Cut.BY_TIME)

_OPENACC = {**_CALL, **_integers("lineNo srcFile")}
OPENACC_DATA = Table("CUPTI_ACTIVITY_KIND_OPENACC_DATA", {**_OPENACC, **_integers("bytes varName")}, time="start")
OPENACC_LAUNCH = Table(
    "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH",
    {**_OPENACC, **_integers("numGangs numWorkers vectorLength kernelName")},
    time="start",
)
OPENACC_OTHER = Table("CUPTI_ACTIVITY_KIND_OPENACC_OTHER", _OPENACC, time="start")

UM_CPU_FAULTS = Table(
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS", {"start": NEEDED, "globalPid": NEEDED, "CpuInstruction": INT}, time="start"
)
UM_GPU_FAULTS = Table(
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
    {**_SPAN, "globalPid": NEEDED, "deviceId": NEEDED, "numberOfPageFaults": ZERO, "faultAccessType": ZERO},
    time="start",
)
_POOL_SIZE = _integers("localMemoryPoolSize localMemoryPoolUtilizedSize")
MEMORY_USAGE = Table(
    "CUDA_GPU_MEMORY_USAGE_EVENTS",
    {
        **dict.fromkeys(["start", "globalPid", "deviceId", "address", "bytes", "memoryOperationType"], NEEDED),
        "memKind": ZERO,
        "localMemoryPoolAddress": INT,
        **_POOL_SIZE,
    },
    time="start",
    cut=Cut.BY_TIME,
)
MEMORY_POOLS = Table(
    "CUDA_GPU_MEMORY_POOL_EVENTS",
    {**dict.fromkeys(["start", "globalPid", "deviceId", "address", "operationType"], NEEDED), **_POOL_SIZE},
    time="start",
)

# Versions without GPU_METRICS have GPU metrics here, all those of a time in one JSON text.
GENERIC_EVENTS = Table(
    "GENERIC_EVENTS",
    {"timestamp": INT, "rawTimestamp": INT, "typeId": NEEDED, "data": TEXT},
    time="timestamp",
    cut=Cut.NOT,
    other_time="rawTimestamp",
)
GENERIC_TYPES = Table("GENERIC_EVENT_TYPES", {"typeId": NEEDED, "sourceId": NEEDED, "data": TEXT})
GENERIC_SOURCES = Table("GENERIC_EVENT_SOURCES", {"sourceId": NEEDED, "data": TEXT})

_NETWORK = {**_SPAN, **dict.fromkeys(["globalId", "metricsListId", "metricsIdx", "value"], NEEDED), "portId": INT}
NIC_METRICS = Table("NET_NIC_METRIC", _NETWORK, time="start")
SWITCH_METRICS = Table("NET_IB_SWITCH_METRIC", _NETWORK, time="start")
ETHERNET_METRICS = Table("NET_ETH_SWITCH_METRIC", _NETWORK, time="start")
NETWORK_METRIC_NAMES = Table(
    "TARGET_INFO_NETWORK_METRICS", {"metricsListId": NEEDED, "metricsIdx": NEEDED, "name": TEXT, "unit": TEXT}
)
NIC_IDS = Table("NIC_ID_MAP", {"nicId": NEEDED, "globalId": NEEDED})
NICS = Table("TARGET_INFO_NIC_INFO", {"nicId": NEEDED, "name": TEXT})
# Devices of networks by their GUID; of an Ethernet switch the hash of its name.
NETWORK_DEVICES = Table("NET_DEVICE_INFO", {"guid": NEEDED, "name": TEXT})

# Files that processes opened, and what their threads did with them.
FILES = Table("OSRT_FILE_ACCESS_DESCRIPTORS", {"fileAccessId": NEEDED, "processId": INT, "filePath": TEXT})
FILE_ACCESS = Table(
    "OSRT_FILE_ACCESS_EVENTS",
    {
        "start": Column(required=True, aliases=("startedAt",)),
        "end": Column(required=True, aliases=("endedAt",)),
        "fileAccessId": INT,
        "threadId": INT,
        "apiCallId": INT,
        "bytesProcessed": ZERO,
    },
    time="start",
)

# Windows: packets of the graphics kernel's queues. A packet is from its start event to its stop event.
_PACKET = {"start": NEEDED, "gpu": NEEDED}
_QUEUED = {**_PACKET, **dict.fromkeys(["context", "submitSequence"], NEEDED), **_integers("packetType engineType")}
_OF_DMA = Column(required=True, aliases=("ulQueueSubmitSequence",))
WDDM_QUEUE = {side: Table(f"WDDM_QUEUE_PACKET_{side}_EVENTS", _QUEUED, time="start") for side in ("START", "STOP")}
WDDM_DMA = {
    side: Table(f"WDDM_DMA_PACKET_{side}_EVENTS", {**_QUEUED, "submitSequence": _OF_DMA}, time="start")
    for side in ("START", "STOP")
}
WDDM_PAGING = {
    side: Table(
        f"WDDM_PAGING_QUEUE_PACKET_{side}_EVENTS",
        {
            **_PACKET,
            **dict.fromkeys(["pagingQueue", "pagingQueuePacket", "sequenceId"], NEEDED),
            "vidMmOpType": INT,
        },
        time="start",
    )
    for side in ("START", "STOP")
}

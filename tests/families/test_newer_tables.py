"""Tables of nsys 2025.6 to 2026.5, of which there is no real report: rows are made by the documentation."""

from pathlib import Path

from exports import MAIN, PID, PROCESS, Drawn, export, tid

import nsys2prv

ROW, STREAM = "thread 100", "CUDA-D0.S7"
CALL = "start end globalTid nameId"
RUNTIME = (CALL, [(0, 5, MAIN, "cudaLaunchKernel")])
DEVICE = "start end deviceId contextId streamId correlationId globalPid"


def test_compilation_just_in_time(tmp_path: Path) -> None:
    rows = [(100, 900, MAIN, "cuModuleLoadData"), (950, 960, tid(101), None), (1, 2, None, "lost")]
    drawn = Drawn(export(tmp_path / "r.sqlite", CUPTI_ACTIVITY_KIND_JIT=(CALL, rows)), "jit", begin=100)
    assert drawn.intervals(70000225) == [(ROW, 100, 900, "cuModuleLoadData"), ("thread 101", 950, 960, "(unnamed)")]
    assert drawn.dropped("jit") == {"without a thread": 1}


def test_host_functions_on_the_thread_and_on_the_stream(tmp_path: Path) -> None:
    """A node of a graph, a launched function, and one that begins before the other has ended: a lane of its own."""
    report = export(
        tmp_path / "r.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=RUNTIME,
        CUDA_HOST_CALLBACK=(CALL, [(110, 190, tid(101), "log(void*)")]),
        CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE_AND_HOST_LAUNCH=(
            f"{DEVICE} graphNodeId graphId",
            [
                (100, 200, 0, 1, 7, 1, PROCESS, 5, 2),
                (300, 400, 0, 1, 7, 2, PROCESS, None, None),
                (350, 450, 0, 1, 7, 3, PROCESS, None, None),
            ],
        ),
    )
    drawn = Drawn(report, "cuda_api", "host_functions")
    assert drawn.intervals(70000226) == [("thread 101", 110, 190, "log(void*)")]
    assert drawn.intervals(70000227) == [
        (STREAM, 100, 200, "Host node of a graph"),
        (STREAM, 300, 400, "Launched host function"),
        (STREAM, 350, 450, "Launched host function"),
    ]
    assert drawn.trace.names["THREAD"].count(STREAM) == 2


def test_decompression_of_memory(tmp_path: Path) -> None:
    report = export(
        tmp_path / "r.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=RUNTIME,
        CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS=(
            f"{DEVICE} sourceBytes NumberOfOperations",
            [(100, 200, 0, 1, 7, 1, PROCESS, 4096, 3), (300, 310, 0, 1, 7, 2, PROCESS, 64, 0)],
        ),
    )
    drawn = Drawn(report, "cuda_api", "decompression")
    assert drawn.intervals(70000228) == [(STREAM, 100, 200, 3), (STREAM, 300, 310, 1)]
    assert drawn.intervals(70000229) == [(STREAM, 100, 200, 4096), (STREAM, 300, 310, 64)]


def test_file_accesses_by_call_file_and_bytes(tmp_path: Path) -> None:
    """Threads are named by the system's ids; an access to a file that is not listed has no thread."""
    report = export(
        tmp_path / "r.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=RUNTIME,
        OSRT_FILE_ACCESS_DESCRIPTORS=(
            "fileAccessId processId openedAt closedAt filePath",
            [(1, PID, 90, 500, "/data/batch0.bin"), (2, PID, 100, 400, "/tmp/log")],
        ),
        OSRT_FILE_ACCESS_EVENTS=(
            "fileAccessId threadId startedAt endedAt eventType apiCallId bytesProcessed context",
            [
                (1, 100, 90, 95, 0, "open64", 0, ""),
                (1, 100, 100, 200, 2, "read", 4096, ""),
                (2, 101, 150, 160, 3, "write", 17, ""),
                (9, 101, 170, 180, 3, "write", 5, ""),
                (1, 100, 210, 220, 2, None, 1, ""),
            ],
        ),
    )
    drawn = Drawn(report, "cuda_api", "file_access")
    assert drawn.intervals(70000261) == [
        (ROW, 90, 95, "open64"),
        (ROW, 100, 200, "read"),
        (ROW, 210, 220, "(unnamed)"),
        ("thread 101", 150, 160, "write"),
    ]
    assert [(start, file) for _, start, _, file in drawn.intervals(70000262)] == [
        (90, "/data/batch0.bin"),
        (100, "/data/batch0.bin"),
        (210, "/data/batch0.bin"),
        (150, "/tmp/log"),
    ]
    assert [(start, size) for _, start, _, size in drawn.intervals(70000263)] == [(100, 4096), (210, 1), (150, 17)]
    assert drawn.dropped("file_access") == {"without a thread": 1}


def test_ethernet_switches_have_their_names(tmp_path: Path) -> None:
    metric = "start end globalId portId metricsListId metricsIdx value"
    report = export(
        tmp_path / "r.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=RUNTIME,
        NET_ETH_SWITCH_METRIC=(
            metric,
            [(100, 200, 77, 3, 1, 0, 5), (200, 300, 77, 3, 1, 0, 9), (100, 200, 78, 1, 1, 0, 1)],
        ),
        NET_DEVICE_INFO=("networkId guid name", [(1, 77, "leaf1")]),
        TARGET_INFO_NETWORK_METRICS=("metricsListId metricsIdx name unit", [(1, 0, "Bytes received", "B/s")]),
    )
    drawn = Drawn(report, "cuda_api", "network")
    labels = {label: number for number, label in drawn.trace.types.items()}
    named = "Ethernet switch leaf1 port 3: Bytes received [B/s]"
    assert [(time, value) for _, time, value in drawn.samples(labels[named])] == [(100, 5), (200, 9), (300, 0)]
    assert "Ethernet switch 78 port 1: Bytes received [B/s]" in labels


def test_packets_of_windows_queues(tmp_path: Path) -> None:
    """A packet is from its start to its stop; one without a stop lasts to the end, one without a start is counted."""
    queued, paged = "start gpu context submitSequence", "start gpu pagingQueue pagingQueuePacket sequenceId"
    report = export(
        tmp_path / "r.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=(CALL, [(0, 5, MAIN, "cudaLaunchKernel"), (990, 1000, MAIN, "cudaFree")]),
        WDDM_QUEUE_PACKET_START_EVENTS=(
            f"{queued} packetType engineType",
            [(100, 0, 8, 1, 0, 1), (150, 0, 8, 2, 4, 6), (900, 0, 8, 3, 99, 99)],
        ),
        WDDM_QUEUE_PACKET_STOP_EVENTS=(queued, [(300, 0, 8, 1), (160, 0, 8, 2), (50, 0, 8, 0)]),
        WDDM_DMA_PACKET_START_EVENTS=(
            "start gpu context ulQueueSubmitSequence packetType engineType",
            [(200, 0, 8, 1, 0, 1)],
        ),
        WDDM_DMA_PACKET_STOP_EVENTS=("start gpu context ulQueueSubmitSequence", [(290, 0, 8, 1)]),
        WDDM_PAGING_QUEUE_PACKET_START_EVENTS=(f"{paged} vidMmOpType", [(400, 0, 1, 2, 3, 206), (420, 0, 1, 5, 4, 7)]),
        WDDM_PAGING_QUEUE_PACKET_STOP_EVENTS=(paged, [(410, 0, 1, 2, 3), (430, 0, 1, 5, 4)]),
        WDDM_HW_QUEUE_EVENTS=("start end gpu", [(1, 1, 0)]),
    )
    drawn = Drawn(report, "cuda_api", "wddm_queues", "wddm_paging")
    gpu = "Metrics GPU0"
    assert drawn.intervals(70000264) == [
        (gpu, 100, 300, "Render"),
        (gpu, 150, 160, "Wait"),
        (gpu, 900, 1000, "Unknown"),
    ]
    assert drawn.intervals(70000265) == [(gpu, 200, 290, "Render")]
    assert [label for *_, label in drawn.intervals(70000266)] == ["3D", "Copy", "3D", "Unknown"]
    assert drawn.intervals(70000267) == [(gpu, 400, 410, "Make resident"), (gpu, 420, 430, "operation 7")]
    assert drawn.dropped("wddm_queues") == {
        "still open at the end (drawn to the last event)": 1,
        "ends of packets that began before the recording": 1,
    }


def test_windows_packets_are_translated_when_asked_for_or_alone(tmp_path: Path) -> None:
    assert not {"wddm_queues", "wddm_paging"} & set(nsys2prv.Selection().families)
    paged = "start gpu pagingQueue pagingQueuePacket sequenceId"
    report = export(
        tmp_path / "r.sqlite",
        WDDM_PAGING_QUEUE_PACKET_START_EVENTS=(f"{paged} vidMmOpType", [(400, 0, 1, 2, 3, 207)]),
        WDDM_PAGING_QUEUE_PACKET_STOP_EVENTS=(paged, [(410, 0, 1, 2, 3)]),
    )
    assert nsys2prv.translate(report, tmp_path / "out").rows["wddm_paging"] == 1

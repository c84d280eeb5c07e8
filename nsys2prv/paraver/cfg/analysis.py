"""Tables of figures. The trace's window of interest controls all of them, so that nothing outside changes them.

They work by task, because a histogram of every row costs the square of the rows; where a figure is a matter of single
kernels or calls, and so of rows, the cfg says so.
"""

from __future__ import annotations

from nsys2prv.model import event_types as types
from nsys2prv.model.event_type import EventType
from nsys2prv.paraver.cfg import record
from nsys2prv.paraver.cfg.basics import DEFAULT_RANGES, PROCESS_RANGES
from nsys2prv.paraver.cfg.look import PERCENT
from nsys2prv.paraver.cfg.task_states import device_state, host_state, iteration, log_duration, overlap
from nsys2prv.paraver.cfg.text import ONE_A_VALUE, AnyWindow, Cfg, Histogram, HistogramColumns, SingleWindow, fixed
from nsys2prv.paraver.cfg.windows import (
    COMPUTE,
    MPI_EVENTS,
    ON_DEVICE,
    counted_within,
    highest_of_task,
    inside,
    of,
    of_nccl_kernels,
    present,
    running,
    stacked,
    values,
    within,
)

BY_ROW = "By row (thread or stream), not by rank."
ONE_DEVICE = """A rank's row is its device, idle or not; several devices of one process count as one, which
`nsys2prv analyze` tells apart."""
ALL_DEVICES = """Several devices of one process count as one, which `nsys2prv analyze` tells apart."""
IN_WINDOW = fixed(1, 1)

NCCL_IS_COMMUNICATION = (COMPUTE, (types.MEMORY, types.NCCL_KERNEL))
NCCL_IS_USEFUL = ((*COMPUTE, types.NCCL_KERNEL), (types.MEMORY,))


def _cfg(
    name: str,
    title: str,
    about: str,
    how: str,
    control: AnyWindow,
    statistic: str,
    columns: HistogramColumns = ONE_A_VALUE,
    data: AnyWindow | None = None,
) -> Cfg:
    scale = PERCENT if statistic == "% Time" else None
    histogram = Histogram(title, control, statistic, columns, data, scale=scale)
    return Cfg("analysis", name, title, about, how, histogram=histogram)


def _of_window(name: str, title: str, about: str, how: str, statistic: str, data: AnyWindow) -> Cfg:
    """Make a cfg of one column: a figure of the data over the whole window of interest."""
    return _cfg(name, title, about, how, inside("task"), statistic, IN_WINDOW, data)


def _efficiency(suffix: str, model: tuple[tuple[EventType, ...], tuple[EventType, ...]], words: str) -> tuple[Cfg, Cfg]:
    states = _cfg(
        f"device_states{suffix}",
        f"Shares of useful, communicating and idle time, {words}",
        f"""Columns: 0 idle, 1 only communication or copies run, 2 useful kernels run; % of the window of interest.
Parallel efficiency = Average of column 2; load balance = its Avg/Max; orchestration efficiency = 100 - Minimum of
column 0; communication efficiency = Maximum of column 2 / orchestration efficiency. {ONE_DEVICE} Averages skip a rank
without the state: see parallel_efficiency{suffix} for ranks that do nothing.""",
        record.CUDA,
        counted_within("Device state in the window", device_state(*model)),
        "% Time",
        fixed(0, 2),
    )
    parallel = _of_window(
        f"parallel_efficiency{suffix}",
        f"Device parallel efficiency and load balance, {words}",
        f"""Share of the window of interest in which each rank's device does useful work. Average = parallel efficiency,
Avg/Max = load balance, Maximum / Maximum of device_busy = communication efficiency; ranks that do nothing count.
{ONE_DEVICE}""",
        record.CUDA,
        "Average value",
        running("Useful", present(*model[0])),
    )
    return states, parallel


def _by_row(
    name: str, title: str, about: str, how: str, events: AnyWindow, statistic: str, data: AnyWindow | None = None
) -> Cfg:
    """Make a cfg of one column for each value of the events on each row."""
    return _cfg(name, title, about, how, within(f"{events.name} in the window", events), statistic, data=data)


def _kernels() -> SingleWindow:
    return values("CUDA kernel", of(types.KERNEL))


def _classes() -> SingleWindow:
    return values("Kernel class", of(types.KERNEL_CLASS))


def _durations_by_class() -> Cfg:
    title = "How many kernels last how long, by class"
    about = f"""Column n counts the kernels that last from 2^n to 2^(n+1) ns (10 is 1 us, 20 is 1 ms), a plane for each
class: choose one in the histogram's 3D menu. {BY_ROW}"""
    control = within("log2 of duration in the window", log_duration())
    histogram = Histogram(title, control, "# Bursts", fixed(1, 48), planes=_classes())
    return Cfg("analysis", "kernel_duration_histogram", title, about, record.CUDA, histogram=histogram)


CFGS: tuple[Cfg, ...] = (
    _cfg(
        "overlap_of_communication",
        "Communication/compute overlap, share of communication time",
        f"""Columns: 1 NCCL's kernels run and nothing computes (exposed), 2 kernels compute meanwhile (overlapped); % of
the communication time in the window of interest. {ALL_DEVICES}""",
        record.NCCL,
        within("Communication in the window", overlap()),
        "% Time",
        fixed(1, 2),
    ),
    _cfg(
        "overlap_of_window",
        "Communication/compute overlap, share of the window of interest",
        f"""Columns: 0 no communication, 1 NCCL's kernels run and nothing computes (exposed), 2 kernels compute
meanwhile (overlapped); % of the window of interest. {ALL_DEVICES}""",
        record.NCCL,
        counted_within("Communication in the window", overlap()),
        "% Time",
        fixed(0, 2),
    ),
    *_efficiency("", NCCL_IS_COMMUNICATION, "NCCL as communication"),
    *_efficiency("_nccl_useful", NCCL_IS_USEFUL, "NCCL as useful"),
    _of_window(
        "device_busy",
        "Share of time in which each rank's device is busy",
        f"""Kernels, CUDA graphs, NCCL or copies run: share of the window. Maximum = orchestration efficiency.
{ONE_DEVICE}""",
        record.CUDA,
        "Average value",
        running("Busy", present(*ON_DEVICE)),
    ),
    _of_window(
        "useful_time",
        "Useful time of each rank's device, and its balance",
        f"""Time in which kernels other than NCCL's, or CUDA graphs, run within the window of interest. Avg/Max =
balance. {ONE_DEVICE}""",
        record.CUDA,
        "Integral",
        running("Useful", present(*COMPUTE)),
    ),
    _cfg(
        "iteration_time",
        "Iteration time by rank",
        """Duration of each outermost NVTX range of the default domain, by rank, cut at the window of interest. Where
several threads of a rank are in different ranges, the later in order of label counts, and hides the others. The rank
with the Maximum of a column is the slow one.""",
        record.NVTX,
        iteration("Outermost NVTX range", DEFAULT_RANGES),
        "Time",
    ),
    _cfg(
        "iteration_efficiency",
        "Device parallel efficiency by iteration",
        f"""Share of each outermost NVTX range of the default domain, as projected on the device, in which the rank's
device computes, NCCL as communication. Where two streams work on different ranges, the later in order of label counts;
where an inner range covers one whole, it is not seen. Average = parallel efficiency of the iteration, Avg/Max = load
balance. {ONE_DEVICE}""",
        record.CUDA_NVTX,
        iteration("Outermost NVTX range on the device", PROCESS_RANGES),
        "Average value",
        data=running("Useful", present(*COMPUTE)),
    ),
    _by_row(
        "kernel_time",
        "Kernel time by name",
        f"Time in each kernel within the window of interest. {BY_ROW}",
        record.CUDA,
        _kernels(),
        "Time",
    ),
    _by_row(
        "kernel_time_by_class",
        "Kernel time by class",
        f"Time in the kernels of each class, NCCL's too, within the window of interest. {BY_ROW}",
        record.CUDA,
        _classes(),
        "Time",
    ),
    _by_row(
        "kernel_duration",
        "Mean kernel duration by name",
        f"Mean duration of each kernel's runs. {BY_ROW}",
        record.CUDA,
        _kernels(),
        "Average Burst Time",
    ),
    _by_row(
        "kernel_duration_by_class",
        "Mean kernel duration by class",
        f"Mean duration of the kernels of each class, NCCL's too. {BY_ROW}",
        record.CUDA,
        _classes(),
        "Average Burst Time",
    ),
    _durations_by_class(),
    _by_row(
        "tensor_activity",
        "Tensor core activity by kernel class (estimate)",
        f"""Tensor activity [%] while kernels of each class run on each GPU, estimated from all samples of the run as
`nsys2prv analyze --by class --window device` does. Needs `translate --also tensor_estimate`. A class without a column
has an estimate of 0, or none: see the end of the translation's summary. The mean of the samples as they are held inside
kernels, which mixes what runs side by side, is hwcounters/in_kernels/tensor_active. {BY_ROW}""",
        record.CUDA_METRICS,
        _classes(),
        "Average value",
        data=values("Tensor activity of the class [%] (estimate)", of(types.TENSOR_ESTIMATE)),
    ),
    _by_row(
        "nccl_time",
        "NCCL time by operation",
        f"Time in NCCL's kernels by operation, waiting for other ranks included. {BY_ROW}",
        record.NCCL_CALLS,
        of_nccl_kernels("NCCL operation", types.NCCL_OPERATION),
        "Time",
    ),
    _by_row(
        "nccl_bytes",
        "NCCL bytes by operation",
        f"Sum of message sizes of NCCL's kernels by operation, as NCCL counts them. {BY_ROW}",
        record.NCCL_CALLS,
        of_nccl_kernels("NCCL operation", types.NCCL_OPERATION),
        "Sum bursts",
        data=of_nccl_kernels("NCCL message size", types.NCCL_BYTES),
    ),
    _by_row(
        "collective_time",
        "Time in each collective",
        f"""Duration of NCCL's kernels by sequence number of the collective: of the ranks in one, that with the Minimum
came last, and Maximum - Minimum is what the first waited for it. Collectives of equal number on several communicators
are added. {BY_ROW}""",
        record.NCCL_CALLS,
        of_nccl_kernels("Sequence number of the collective", types.NCCL_SEQUENCE),
        "Time",
    ),
    _by_row(
        "memory_bytes",
        "Bytes moved by kind of memory operation",
        f"Sum of bytes of copies by direction, and of memsets. {BY_ROW}",
        record.CUDA,
        values("Memory operation", of(types.MEMORY)),
        "Sum bursts",
        data=values("Bytes", of(types.MEMORY_BYTES)),
    ),
    _by_row(
        "memory_bandwidth",
        "Bandwidth by kind of memory operation",
        f"Bytes over time in operations of each kind [MB/s]. {BY_ROW}",
        record.CUDA,
        values("Memory operation", of(types.MEMORY)),
        "Average value",
        data=values("Throughput", of(types.MEMORY_THROUGHPUT)),
    ),
    _cfg(
        "bytes_between_ranks",
        "Bytes sent from rank to rank",
        """Bytes of MPI's and NCCL's point-to-point messages that are sent within the window of interest: the row's rank
sends, the column's receives. Lines from calls to device activity have no bytes.""",
        record.MESSAGES,
        inside("task"),
        "Bytes sent",
        IN_WINDOW,
    ),
    _cfg(
        "waiting_by_rank",
        "Time that each rank waits for each other",
        """Time in which the row's rank waits for the column's, the last to come to an NCCL kernel or MPI call, within
the window of interest. Where several streams or threads of a rank wait at once, the highest column counts.""",
        record.WAITING,
        within("Rank waited for in the window", highest_of_task("Rank waited for", of(types.WAITED_FOR))),
        "Time",
    ),
    _cfg(
        "critical_path_by_class",
        "Critical path by rank and class",
        """Which rank and what kind of work decide how long the window of interest lasts? Time of the critical path in
each rank by class of kernels, transfer, launch latency, host work, synchronization and copies; all cells add up to the
window. Needs `translate --also critical_path`.""",
        record.WAITING,
        within("Critical path in the window", highest_of_task("Critical path", of(types.CRITICAL_PATH))),
        "Time",
    ),
    _cfg(
        "idle_causes",
        "Idle time of each rank's device by cause",
        """Why do the devices idle? Time within the window of interest in which a device waits for the host to launch,
for a stream or an event (dependency), while the host is in MPI (communication) or waits for the device (host
synchronization), and the rest. Of several idle devices of one process the last cause in the order of columns counts;
`nsys2prv analyze` tells them apart. Needs `translate --also idle_causes`.""",
        record.WAITING,
        within("Cause of idle time in the window", highest_of_task("Cause of idle time", of(types.IDLE_CAUSE))),
        "Time",
    ),
    _cfg(
        "host_states",
        "Host time in MPI, CUDA synchronization and other CUDA calls",
        """Columns: 0 neither, 1 a CUDA call that does not wait, 2 a CUDA synchronization, 3 MPI, of any thread of the
rank, the highest where threads differ; % of the window of interest.""",
        record.HOST,
        counted_within("Host state in the window", host_state()),
        "% Time",
        fixed(0, 3),
    ),
    _by_row(
        "host_cuda_calls",
        "Host time by CUDA call",
        "Time in each CUDA call by thread, within the window of interest; of nested calls the innermost has it.",
        record.CUDA,
        stacked("CUDA call", of(types.CUDA_API)),
        "Time",
    ),
    _by_row(
        "host_synchronization",
        "Host time by kind of CUDA synchronization",
        "Time that each thread waits for the device, within the window of interest.",
        record.CUDA,
        stacked("CUDA synchronization", of(types.SYNCHRONIZATION)),
        "Time",
    ),
    _by_row(
        "host_mpi",
        "Host time by MPI call",
        "Time in each MPI call by thread, within the window of interest; of nested calls the innermost has it.",
        record.MPI,
        stacked("MPI call", MPI_EVENTS),
        "Time",
    ),
)

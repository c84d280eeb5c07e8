"""Tables of figures. The trace's window of interest controls all of them, so that nothing outside changes them.

Those of the critical path and of causes of idle time have events within it alone. They do without its type, which every
trace has: Paraver greys a cfg only in traces that have none of its types.

They work by task, because a histogram of every row costs the square of the rows; where a figure is a matter of single
kernels or calls, and so of rows, the cfg says so.
"""

from __future__ import annotations

from nsys2prv.model import event_types as types
from nsys2prv.model.table_columns import HOST_STATES
from nsys2prv.paraver.cfg import device_tables, kernel_tables, nsys_options
from nsys2prv.paraver.cfg.tables import BY_ROW, Figure, by_row, shares, table
from nsys2prv.paraver.cfg.task_states import host_state
from nsys2prv.paraver.cfg.text import Cfg, fixed
from nsys2prv.paraver.cfg.windows import (
    MPI_EVENTS,
    highest_of_task,
    inside,
    of,
    of_nccl_kernels,
    stacked,
    values,
    within,
)

CFGS: tuple[Cfg, ...] = (
    *device_tables.CFGS,
    *kernel_tables.CFGS,
    by_row(
        "nccl_time",
        "NCCL time by operation [ms]",
        f"""Which NCCL operation takes the time? Time in NCCL's kernels by operation, waiting for other ranks included.
{BY_ROW}""",
        nsys_options.NCCL_CALLS,
        of_nccl_kernels("NCCL operation", types.NCCL_OPERATION),
        Figure("Time"),
    ),
    by_row(
        "nccl_bytes",
        "NCCL bytes by operation",
        f"""How much does each NCCL operation move? Sum of message sizes of NCCL's kernels by operation, as NCCL counts
them. {BY_ROW}""",
        nsys_options.NCCL_CALLS,
        of_nccl_kernels("NCCL operation", types.NCCL_OPERATION),
        Figure("Sum bursts", of_nccl_kernels("NCCL message size", types.NCCL_BYTES)),
    ),
    by_row(
        "collective_time",
        "Time in each collective [us]",
        f"""Which rank comes last to each collective? Duration of NCCL's kernels by sequence number of the collective:
of the ranks in one, that with the Minimum came last, and Maximum - Minimum is what the first waited for it.
Collectives of equal number on several communicators are added. {BY_ROW}""",
        nsys_options.NCCL_CALLS,
        of_nccl_kernels("Sequence number of the collective", types.NCCL_SEQUENCE),
        Figure("Time", unit="Microseconds"),
    ),
    by_row(
        "memory_bytes",
        "Bytes moved by kind of memory operation",
        f"How much is copied, in which direction? Sum of bytes of copies by direction, and of memsets. {BY_ROW}",
        nsys_options.CUDA,
        values("Memory operation", of(types.MEMORY)),
        Figure("Sum bursts", values("Bytes", of(types.MEMORY_BYTES))),
    ),
    by_row(
        "memory_bandwidth",
        "Bandwidth by kind of memory operation [MB/s]",
        f"How fast are copies? Bytes over time in operations of each kind. {BY_ROW}",
        nsys_options.CUDA,
        values("Memory operation", of(types.MEMORY)),
        Figure("Average value", values("Throughput", of(types.MEMORY_THROUGHPUT))),
    ),
    table(
        "bytes_between_ranks",
        "Bytes sent from rank to rank",
        """Who sends how much to whom? Bytes of MPI's and NCCL's point-to-point messages that are sent within the
window of interest: the row's rank sends, the column's receives. Lines from calls to device activity have no bytes.""",
        nsys_options.MESSAGES,
        inside("task"),
        Figure("Bytes sent"),
        fixed(1, 1),
    ),
    table(
        "waiting_by_rank",
        "Time that each rank waits for each other [ms]",
        """Who waits for whom? Time in which the row's rank waits for the column's, the last to come to an NCCL kernel
or MPI call, within the window of interest. Where several streams or threads of a rank wait at once, the highest column
counts.""",
        nsys_options.WAITING,
        within("Rank waited for in the window", highest_of_task("Rank waited for", of(types.WAITED_FOR))),
        Figure("Time"),
    ),
    table(
        "critical_path_by_class",
        "Critical path by rank and class [ms]",
        """Which rank and what kind of work decide how long the window of interest lasts? Time of the critical path in
each rank by class of kernels, transfer, launch latency, host work, synchronization and copies; all cells add up to the
window. Needs `translate --also critical_path`.""",
        nsys_options.WAITING,
        highest_of_task("Critical path", of(types.CRITICAL_PATH)),
        Figure("Time"),
    ),
    table(
        "idle_causes",
        "Idle time of each rank's device by cause [ms]",
        """Why do the devices idle? Time within the window of interest in which a device waits for the host to launch,
for a stream or an event (dependency), while the host is in MPI (communication) or waits for the device (host
synchronization), and the rest. Of several idle devices of one process the last cause in the order of columns counts;
`nsys2prv analyze` tells them apart. Needs `translate --also idle_causes`.""",
        nsys_options.WAITING,
        highest_of_task("Cause of idle time", of(types.IDLE_CAUSE)),
        Figure("Time"),
    ),
    shares(
        "host_states",
        "Host time in MPI, CUDA synchronization and other CUDA calls [%]",
        """What do hosts do: MPI, a CUDA synchronization, another CUDA call that does not wait, or neither? Of any
thread of the rank, the highest of these where threads differ; % of the window of interest.""",
        nsys_options.HOST,
        host_state(),
        (HOST_STATES, HOST_STATES + 3),
    ),
    by_row(
        "host_cuda_calls",
        "Host time by CUDA call [ms]",
        """Which CUDA calls hold the host? Time in each CUDA call by thread, within the window of interest; of nested
calls the innermost has it.""",
        nsys_options.CUDA,
        stacked("CUDA call", of(types.CUDA_API)),
        Figure("Time"),
    ),
    by_row(
        "host_synchronization",
        "Host time by kind of CUDA synchronization [ms]",
        """How does the host wait for the device? Time that each thread waits for the device, within the window of
interest.""",
        nsys_options.CUDA,
        stacked("CUDA synchronization", of(types.SYNCHRONIZATION)),
        Figure("Time"),
    ),
    by_row(
        "host_mpi",
        "Host time by MPI call [ms]",
        """Which MPI calls hold the host? Time in each MPI call by thread, within the window of interest; of nested
calls the innermost has it.""",
        nsys_options.MPI,
        stacked("MPI call", MPI_EVENTS),
        Figure("Time"),
    ),
)

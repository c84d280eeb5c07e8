"""Tables of an analysis that the terminal and the page both show: their sections, titles, heads and units.

Columns have the names of the JSON. The page shows all of them, the terminal a part, and fewer rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nsys2prv.analysis.host import HostEfficiency
from nsys2prv.model.units import COUNT, FRACTION, NUMBER, Unit, head_of, unit_of

Records = Sequence[Mapping[str, Any]]

# Heads that do not follow from the name, in all tables.
_HEADS = {
    "med_ns": "p50 us",
    "waited_for": "waits for rank",
    "gpu_waited_for": "waits for gpu",
    "call": "longest call of the host",
    "wait_p50_ns": "to start p50 us",
    "wait_p90_ns": "to start p90 us",
    "wait_p99_ns": "to start p99 us",
    "start_ns": "at ms",
}
# Of tables whose first rows are sums over all ranks.
OVER_ALL = {"rank": "all"}


class ShownTable(NamedTuple):
    """A table: its section, its key (the same on every page), its title.

    `heads`, `units`: of columns, by name, that are not those of all tables; `none`: texts in place of a number that
    there is not.
    """

    section: str
    key: str
    title: str
    heads: Mapping[str, str] = {}
    units: Mapping[str, Unit] = {}
    none: Mapping[str, str] = {}

    def head(self, name: str) -> str:
        """Return the head of a column."""
        return self.heads.get(name) or _HEADS.get(name) or head_of(name)

    def unit(self, name: str, whole: bool) -> Unit:
        """Return the unit of a column of numbers. `whole`: these are integers."""
        return self.units.get(name) or unit_of(name) or (COUNT if whole else NUMBER)


FINDINGS = ShownTable("findings", "findings", "Findings", {"share": "%", "title": "finding"})
DEFECTS = ShownTable("defects", "defects", "Wrong or missing in the reports, the worst first")
EFFICIENCY = ShownTable(
    "efficiency",
    "efficiency",
    "Device efficiency in %",
    {
        "name": "of",
        "load_balance": "= load balance",
        "communication": "x communication",
        "orchestration": "x orchestration",
    },
    dict.fromkeys(("parallel", "load_balance", "communication", "orchestration"), FRACTION),
)
FACTORS = ShownTable(
    "efficiency",
    "factors",
    "Communication efficiency of the window in %: waiting for late ranks x transfers",
    {"serialization": "= serialization", "transfer": "x transfer"},
    dict.fromkeys(("communication", "serialization", "transfer"), FRACTION),
)


def with_communication(table: ShownTable, name: str) -> ShownTable:
    """Return a table of efficiencies whose factor `communication` has the name that the verdict gives it."""
    sign = table.head("communication").partition("communication")[0]
    return table._replace(heads={**table.heads, "communication": f"{sign}{name}"})


DEVICES = ShownTable("devices", "devices", "Device time")
HOST = ShownTable("host", "host", "Host side", {"factor": "host efficiency", "value": "%"}, {"value": FRACTION})
MAIN_THREADS = ShownTable(
    "host",
    "main_threads",
    "Time of main threads",
    {"mpi_ns": "MPI ms", "cuda_ns": "CUDA calls ms", "synchronization_ns": "waiting in synchronization ms"},
)
OVERLAP = ShownTable("overlap", "overlap", "Communication", {"communication_ns": "ms"})
COMMUNICATION = ShownTable(
    "communication",
    "communication",
    "Waiting and transfer of NCCL kernels and MPI calls (those at one time count twice)",
)
WAITING = ShownTable("waiting", "waiting", "Who waits for whom", none={"waited_for": "another rank"})
WAITING_OF_GPUS = ShownTable("waiting", "waiting_of_gpus", "Who waits for whom among the GPUs of a rank")
CAUSES = ShownTable(
    "causes",
    "causes",
    "Causes of waiting, by the rank that came late (sums over the ranks that wait)",
    {"kind": "work", "name": "in", "ns": "waiting ms", "ranks": "ranks that wait"},
)
CRITICAL_PATH = ShownTable("critical-path", "critical_path", "Critical path", {"family": "kernels"})
CRITICAL_PATH_CLASSES = ShownTable(
    "critical-path", "critical_path_classes", "Critical path by family of kernels", {"family": "kernels"}
)
CRITICAL_PATH_RANKS = ShownTable("critical-path", "critical_path_ranks", "Critical path by rank")
IDLE_CAUSES = ShownTable("idle-causes", "idle_causes", "Causes of idle time, by device", none={"span": "all"})
WHAT_IF = ShownTable("what-if", "what_if", "What if", {"measured_ns": "iteration ms", "iteration_ns": "predicted ms"})
WHAT_IF_OF_WINDOW = WHAT_IF._replace(heads={**WHAT_IF.heads, "measured_ns": "window ms"})
CONTENTION = ShownTable(
    "contention",
    "contention",
    "Kernels beside communication, all ranks, by family",
    {"waiting": "beside waiting", "waiting_error": "+-", "transfer": "beside transfer", "transfer_error": "+-"},
    # Factors by which kernels slow down: no efficiency.
    {"transfer": NUMBER},
)
PIPELINE = ShownTable("pipeline", "pipeline", "Pipeline, mean of an iteration", units={"microbatches": Unit("", 1, 1)})
ITERATION_MEANS = ShownTable("iterations", "iteration_means", "Iterations, mean by rank")
CLASSES = ShownTable("classes", "classes", "Kernel classes", none=OVER_ALL)
MEMORY = ShownTable("memory", "memory", "Memory operations", none=OVER_ALL)
MEMORY_KINDS = ShownTable("memory-kinds", "memory_kinds", "Memory operations by kinds of memory", none=OVER_ALL)
LAUNCHES = ShownTable(
    "launches", "launches", "Launches", {"call_ns": "calls ms", "kernel_ns": "kernels ms"}, none=OVER_ALL
)
QUEUES = ShownTable("queues", "queues", "Queues of streams: launched and not started")
NCCL_BANDWIDTHS = ShownTable(
    "nccl-bandwidths", "nccl_bandwidths", "NCCL bandwidths of whole kernels, with the time in which they wait"
)
API = ShownTable("api", "api", "Host calls", none=OVER_ALL)
RANGES = ShownTable("ranges", "ranges", "NVTX ranges on the device (by process)")
NVTX = ShownTable("nvtx", "nvtx", "NVTX ranges on the host", none=OVER_ALL)
IDLE = ShownTable("idle", "idle", "Longest idle times by device", {"call_ns": "for ms"})
HOST_SAMPLES = ShownTable(
    "host-samples",
    "host_samples",
    "Samples of launching threads while devices have no launched work",
    {"family": "samples of", "samples": "number", "share": "%", "file": "library or file"},
)
_HEADS_OF_NCU = {
    "ns": "total ms",
    "sm_percent": "SM %",
    "dram_bytes": "DRAM MB",
    "l2_bytes": "L2 MB",
    "stall": "main stall",
    "same_kernel": "same kernel's mean",
}
KERNELS = ShownTable("kernels", "kernels", "Kernels", _HEADS_OF_NCU, none=OVER_ALL)
NCU_FILES = ShownTable(
    "ncu",
    "ncu_files",
    "Files of Nsight Compute",
    {"placed": "how", "first": "first launch", "places": "places that fit"},
)
NCU_CLASSES = ShownTable(
    "ncu",
    "ncu",
    "Kernels by class, as Nsight Compute measured them: shares weighted by time, bytes a kernel",
    _HEADS_OF_NCU,
)
ROOFLINE = ShownTable(
    "roofline",
    "roofline",
    "Roofline by class, each kernel alone under the profiler",
    {
        "ns": "total ms",
        "profiled_ns": "alone ms",
        "flop": "GFLOP",
        "bytes": "DRAM MB",
        "flop_byte": "FLOP/byte",
        "flop_s": "TFLOP/s",
        "peak_flop_s": "peak TFLOP/s",
        "flop_percent": "FLOP %",
        "bytes_s": "GB/s",
        "peak_bytes_s": "peak GB/s",
        "bytes_percent": "DRAM %",
        "bound": "lower roof",
    },
)

_HOST_FACTORS = {
    "offload": "device offload (upper bound)",
    "mpi": "MPI parallel",
    "mpi_balance": "  = load balance",
    "mpi_communication": "  x communication",
}


def finding_rows(findings: Records) -> list[dict[str, Any]]:
    """Return findings, as their JSON has them, as rows of FINDINGS.

    One that costs an iteration nothing has no cost, for 0.000 ms would be one. Pauses have their time in the run, of
    which their share is.
    """
    return [
        {**one, "cost_ns": one["cost_ns"] or one["evidence"].get("pauses_ns"), "share": one["share"] or None}
        for one in findings
    ]


def host_factors(host: HostEfficiency) -> list[dict[str, Any]]:
    """Return the rows of HOST: `factor`, the name of an efficiency, and its `value`."""
    values = host._asdict()
    return [{"factor": name, "value": values[n]} for n, name in _HOST_FACTORS.items() if values[n] is not None]


def with_percent(rows: Records, name: str, part: str, whole: str | float) -> list[dict[str, Any]]:
    """Return rows with the column `name`: the column `part` in percent of `whole`, a column or a number; None of 0."""
    found = []
    for row in rows:
        of = row[whole] if isinstance(whole, str) else whole
        found.append({**row, name: 100 * row[part] / of if of else None})
    return found

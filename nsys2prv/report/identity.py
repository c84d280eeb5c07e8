"""The identity of a report: its host, GPUs, processes, ranks, session start, versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.model.global_ids import is_main_thread, main_thread_of, pid_of, process_of
from nsys2prv.model.stream_kinds import StreamKind
from nsys2prv.report import schema
from nsys2prv.report.declaration import TIME_LIMIT
from nsys2prv.report.json_text import decoded
from nsys2prv.report.tables import ReadTable

# Tables with the identity of a report, beside StringIds.
IDENTITY_TABLES = (
    schema.SYSTEM,
    schema.CAPTURE,
    schema.EXPORT,
    schema.SESSION,
    schema.GPUS,
    schema.PROCESSES,
    schema.MPI_RANKS,
    schema.CUDA_DEVICES,
    schema.CUDA_CONTEXTS,
    schema.CUDA_STREAMS,
    schema.THREAD_NAMES,
)
# Names that a process has until the profiler has started the program in it.
LAUNCHER = re.compile(r"\[?(nsys|QuadD)", re.IGNORECASE)
# Columns of TARGET_INFO_GPU in the order of Capacity.
CAPACITY = ["totalMemory", "smCount", "maxWarpsPerSm", "maxRegistersPerSm", "maxShmemPerSm", "maxBlocksPerSm"]
CPU_FACTS = ("CpuCores", "CpuDescription", "HardwarePlatform")
# JSON of the target on its GPUs, read for the ones that are instances (MIG).
_MIG = pl.Struct({"GpuInstance": pl.Int64(), "ComputeInstance": pl.Int64()})
_GPU_INFO = pl.Struct({"Gpus": pl.List(pl.Struct({"Id": pl.Int64(), "MigInstance": _MIG}))})


class Capacity(NamedTuple):
    """The size of a GPU; 0 where the export does not say.

    `memory`: bytes. Of each multiprocessor: registers, bytes of shared memory, the most warps and blocks at one time.
    """

    memory: int = 0
    multiprocessors: int = 0
    warps: int = 0
    registers: int = 0
    shared: int = 0
    blocks: int = 0


class Gpu(NamedTuple):
    """A GPU as its host numbers it. `uuid` and `bus` are empty where the export lacks them.

    `instance` is `GPU instance/compute instance` of a part of a GPU (MIG), which CUDA takes for a GPU of its own.
    """

    id: int
    name: str
    bus: str
    uuid: str
    instance: str = ""
    capacity: Capacity = Capacity()

    @property
    def location(self) -> str:
        """Return where on its host's bus it is, which no other GPU is; empty where the export does not say."""
        return f"{self.bus}/{self.instance}" if self.bus and self.instance else self.bus

    @property
    def key(self) -> str:
        """Return its identity on its host: uuid, else bus location, else number."""
        # Before CUDA 11.4 the uuid of an instance was that of its GPU.
        return "/".join(filter(None, (self.uuid or self.bus or f"#{self.id}", self.instance)))

    def is_called(self, name: str) -> bool:
        """Return True if an entry of CUDA_VISIBLE_DEVICES names it: `GPU-`, `MIG-` or `MIG-GPU-`, then its key.

        CUDA also takes the beginning of a uuid if no other GPU's uuid begins so.
        """
        uuid = name.removeprefix("MIG-").removeprefix("GPU-")
        return bool(self.uuid and uuid) and (self.uuid.startswith(uuid) or uuid == self.key)


class Process(NamedTuple):
    """A process of a report. `mpi_rank` comes from MPI_RANKS."""

    global_pid: int
    pid: int
    name: str
    mpi_rank: int | None


class Identity(NamedTuple):
    """The host, GPUs, processes and clock of a report. Times are ns.

    In UTC, an event at time t of the report is at t + utc_epoch_ns - time_shift_ns (`utc_epoch_ns` None: unknown).
    """

    host: str
    cpu: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    processes: tuple[Process, ...]
    # (pid, the process' device number) -> the host's GPU number
    cuda_devices: Mapping[tuple[int, int], int]
    # (pid, the process' device number) that have a CUDA context: devices that a process meant to use
    contexts: tuple[tuple[int, int], ...]
    environment: Mapping[str, str]
    session: str
    utc_epoch_ns: int | None
    time_shift_ns: int
    # The profiler that recorded: nsys or nvprof; its version is empty where the report does not say.
    profiler: str
    nsys_version: str
    schema_version: str
    thread_names: Mapping[int, str] = {}
    # The host's monotonic clock at the session start, since schema 3.24.
    system_clock_ns: int | None = None
    # (pid, context, stream) -> kind; without those that the export does not know.
    streams: Mapping[tuple[int, int, int], StreamKind] = {}
    # The profiled command, word by word; empty for a session that started none.
    command: tuple[str, ...] = ()

    def gpu_of(self, pid: int, device: int) -> Gpu:
        """Return the GPU behind a process' device number; without a table for it, the visible one there."""
        number = self.cuda_devices.get((pid, device))
        if number is None:
            number = self._visible(device)
        return next((g for g in self.gpus if g.id == number), Gpu(number, "", "", ""))

    def _visible(self, device: int) -> int:
        """Return the number of the GPU that CUDA_VISIBLE_DEVICES has at a place; without an entry the place itself."""
        visible = [v.strip() for v in self.environment.get("CUDA_VISIBLE_DEVICES", "").split(",")]
        entry = visible[device] if 0 <= device < len(visible) else ""
        by_uuid = (g.id for g in self.gpus if g.is_called(entry))
        return int(entry) if entry.isdecimal() else next(by_uuid, device)


def read_identity(read: ReadTable, strings: Callable[[], pl.DataFrame]) -> Identity:
    """Return identity from IDENTITY_TABLES and StringIds (id, text) of one export; missing facts stay empty."""
    system = _pairs(read(schema.SYSTEM))
    capture = read(schema.CAPTURE)
    export = _pairs(read(schema.EXPORT))
    captured = _pairs(capture)
    session = read(schema.SESSION)
    shift = export.get("EXPORT_CONFIG_TIME_SHIFT", "")
    threads = _thread_names(read(schema.THREAD_NAMES), strings)
    return Identity(
        host=system.get("Hostname") or captured.get("DEVICE_DISPLAY_NAME") or "",
        cpu=tuple(system.get(name, "") for name in CPU_FACTS),
        gpus=_gpus(read(schema.GPUS), _instances(system.get("GpuInfo", ""))),
        processes=_processes(read(schema.PROCESSES), read(schema.MPI_RANKS), threads),
        cuda_devices=_cuda_devices(read(schema.CUDA_DEVICES)),
        contexts=_contexts(read(schema.CUDA_CONTEXTS)),
        environment=_environment(system, capture),
        session=captured.get("PROFILING_SESSION_UUID", ""),
        utc_epoch_ns=_time(session["utcEpochNs"]),
        time_shift_ns=_time([int(shift)] if re.fullmatch(r"-?\d{1,20}", shift, re.ASCII) else []) or 0,
        profiler="nvprof" if export.get("EXPORT_PRODUCT_NAME") == "nvprof" else "nsys",
        nsys_version=export.get("EXPORT_PRODUCT_VERSION", ""),
        schema_version=export.get("EXPORT_SCHEMA_VERSION", ""),
        thread_names=threads,
        system_clock_ns=_time(session["systemClockNs"]),
        streams=_streams(read(schema.CUDA_STREAMS)),
        command=_command(captured),
    )


def _command(captured: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of the command that the session started."""
    names = ("PROCESS_0:COMMAND", *(f"PROCESS_0:ARGUMENT_{n}" for n in range(len(captured))))
    return tuple(captured[name] for name in names if name in captured)


def _time(values: Iterable[int | None]) -> int | None:
    """Return the first of some values (ns) that can be a time."""
    return next((v for v in values if v is not None and abs(v) <= TIME_LIMIT), None)


def _pairs(frame: pl.DataFrame) -> dict[str, str]:
    """Return the first value of each name; the case of META_DATA names differs between versions."""
    pairs: dict[str, str] = {}
    for name, value in frame.select("name", "value").rows():
        pairs.setdefault(name or "", value or "")
    return pairs


def _gpus(frame: pl.DataFrame, instances: Mapping[int, str]) -> tuple[Gpu, ...]:
    """Return the GPUs of TARGET_INFO_GPU. `instances`: see _instances."""
    known = frame.filter(pl.col("id").is_not_null()).sort("id")
    rows = known.select("id", pl.col("name", "busLocation", "uuid").fill_null("")).rows()
    capacities = known.select(pl.col(CAPACITY).fill_null(0)).rows()
    return tuple(
        Gpu(number, name, bus, uuid, instances.get(number, ""), Capacity(*capacity))
        for (number, name, bus, uuid), capacity in zip(rows, capacities, strict=True)
    )


def _instances(info: str) -> dict[int, str]:
    """Return number -> `GPU instance/compute instance` of the GPUs in GpuInfo that are instances."""
    described = decoded(pl.Series([info], dtype=pl.String), _GPU_INFO)[0]
    gpus = (described or {}).get("Gpus") or []
    found = {g["Id"]: g["MigInstance"] for g in gpus if g and g["MigInstance"] and g["Id"] is not None}
    return {number: f"{mig['GpuInstance'] or 0}/{mig['ComputeInstance'] or 0}" for number, mig in found.items()}


def _processes(processes: pl.DataFrame, ranks: pl.DataFrame, threads: Mapping[int, str]) -> tuple[Process, ...]:
    """Return the processes of PROCESSES, and those of MPI_RANKS; without any those whose main thread has a name."""
    # One rank a process: all threads of a process name the same.
    by_pid = {pid_of(tid): rank for tid, rank in ranks.select("globalTid", "rank").drop_nulls().rows()}
    listed: dict[int, list[str]] = {}
    for process, name in processes.select("globalPid", pl.col("name").fill_null("")).drop_nulls().rows():
        listed.setdefault(process, []).append(name)
    # Exports of chosen tables may have the ranks alone.
    known = dict.fromkeys(process_of(ranks["globalTid"].drop_nulls())) | dict.fromkeys(listed)
    found = known or dict.fromkeys(process_of(t) for t in threads if is_main_thread(t))
    names = {g: _process_name(listed.get(g, ()), threads.get(main_thread_of(g), "")) for g in found}
    return tuple(Process(g, pid_of(g), names[g], by_pid.get(pid_of(g))) for g in sorted(found))


def _process_name(names: Sequence[str], main_thread: str) -> str:
    """Return the name of a process' program: the last of its names that is no launcher's, else the main thread's name.

    Rows of newer exports are in no order: of several names those count that begin as the main thread's does.
    """
    programs = [name for name in names if name and not LAUNCHER.match(name.rsplit("/", 1)[-1])]
    of_thread = [name for name in programs if main_thread and name.rsplit("/", 1)[-1].startswith(main_thread)]
    best = of_thread or programs or ([main_thread] if main_thread else names) or [""]
    return best[-1]


def _cuda_devices(frame: pl.DataFrame) -> dict[tuple[int, int], int]:
    """Return (pid, the process' device number) -> the host's GPU number."""
    return {(pid, cuda): gpu for gpu, cuda, pid in frame.select("gpuId", "cudaId", "pid").drop_nulls().rows()}


def _contexts(frame: pl.DataFrame) -> tuple[tuple[int, int], ...]:
    """Return (pid, the process' device number) of each CUDA context, sorted."""
    return tuple(frame.select("processId", "deviceId").drop_nulls().unique().sort("processId", "deviceId").rows())


def _streams(frame: pl.DataFrame) -> dict[tuple[int, int, int], StreamKind]:
    """Return the kind of each stream by (pid, context, stream)."""
    known = frame.filter(pl.col("flag").is_in([*StreamKind])).drop_nulls()
    rows = known.select("processId", "contextId", "streamId", "flag").rows()
    return {(pid, context, stream): StreamKind(kind) for pid, context, stream, kind in rows}


def _environment(system: Mapping[str, str], capture: pl.DataFrame) -> dict[str, str]:
    """Return the environment of the profiled command: of its device, then of the launched process (which wins)."""
    variables = dict(v.split("=", 1) for v in system.get("DeviceEnvironment", "").split(";") if "=" in v)
    own = capture.filter(pl.col("name").str.contains(r"^PROCESS_\d+:ENVIRONMENT_VARIABLE$").fill_null(False))
    for text in own["value"].drop_nulls():
        name, _, value = text.partition("=")
        variables[name] = value.strip('"')
    return variables


def _thread_names(frame: pl.DataFrame, strings: Callable[[], pl.DataFrame]) -> dict[int, str]:
    """Return the name of each thread by globalTid."""
    if frame.is_empty():
        return {}
    # A thread with several names has the last one.
    named = frame.join(strings(), left_on="nameId", right_on="id", how="inner", maintain_order="left")
    return dict(named.drop_nulls(["globalTid", "text"]).select("globalTid", "text").rows())

"""States of devices and hosts by task, from which the tables of figures are made."""

from __future__ import annotations

from nsys2prv.model import event_types as types
from nsys2prv.model.event_type import EventType
from nsys2prv.model.table_columns import DEVICE_STATES, HOST_STATES, OVERLAP
from nsys2prv.paraver.cfg.text import DerivedWindow, Events, Level, SingleWindow
from nsys2prv.paraver.cfg.windows import (
    ABOVE,
    COMPUTE_TYPES,
    MPI_EVENTS,
    computing,
    inside,
    nesting,
    of,
    or_nothing,
    outermost,
    running,
)

# The host goes on while a stream waits for an event.
HOST_WAITS = "In Evt Val { 1, { 4 1 3 4 5 } }"


def overlap() -> DerivedWindow:
    """Show the columns of OVERLAP: how many kernels compute while NCCL's run, three standing for more."""
    beside = DerivedWindow(
        "Kernels beside, at most 3",
        "minimum",
        _computing(),
        _constant("3", 3),
        level="task",
        compose={"compose_task": "Add { 1, { 1 1 } }"},
    )
    nccl = running("NCCL runs", of(types.NCCL_KERNEL))
    columns = {"compose_task": f"Add {{ 1, {{ 1 {OVERLAP} }} }}"}
    return DerivedWindow("Communication", "product", beside, nccl, level="task", compose=columns)


def _computing() -> SingleWindow:
    """Count the rows of a task on which kernels or graphs compute."""
    return SingleWindow("Kernels that compute", computing(*COMPUTE_TYPES), "task", compose={"compose_thread": "Sign"})


def _constant(name: str, value: int) -> SingleWindow:
    """Show a number over the whole trace, by task."""
    compose = {"compose_thread": "Sign", "compose_task": f"Prod {{ 1, {{ 1 {value} }} }}"}
    return SingleWindow(name, None, "task", "Thread ID", functions={"task": "AddingSign"}, compose=compose)


def device_state(useful: tuple[EventType, ...], moves: tuple[EventType, ...]) -> DerivedWindow:
    """Show the columns of DEVICE_STATES: idle, only data moves, useful work runs."""
    parts = (running("Useful", computing(*useful)), running("Moves data", or_nothing(*moves)))
    columns = {"compose_task": f"Add {{ 1, {{ 1 {DEVICE_STATES} }} }}"}
    return DerivedWindow("Device state", "maximum", *parts, level="task", factors=(2.0, 1.0), compose=columns)


def always() -> SingleWindow:
    """Show 1 over the whole trace in one burst, by task. State records would divide what has no events."""
    return SingleWindow(
        "One", of(types.NOTHING), "task", functions={"task": "AddingSign"}, compose={"compose_thread": "1-Sign"}
    )


def iteration(name: str, ranges: Events, level: Level = "task") -> DerivedWindow:
    """Show the outermost NVTX range of each task, or of any, within the window of interest."""
    own = outermost(name, ranges)
    return DerivedWindow(f"{name} in the window", "product", own, inside("thread"), level=level, functions=ABOVE)


def host_state() -> DerivedWindow:
    """Show the columns of HOST_STATES: the highest of the states that the threads of a task are in."""
    calls = nesting("CUDA call", or_nothing(types.CUDA_API))
    waits = running("CUDA synchronization", or_nothing(types.SYNCHRONIZATION), function=HOST_WAITS)
    cuda = DerivedWindow("CUDA", "maximum", calls, waits, level="task", factors=(1.0, 2.0))
    columns = {"compose_task": f"Add {{ 1, {{ 1 {HOST_STATES} }} }}"}
    mpi = nesting("MPI", Events((types.NOTHING.number,), MPI_EVENTS.labels))
    return DerivedWindow("Host state", "maximum", cuda, mpi, level="task", factors=(1.0, 3.0), compose=columns)

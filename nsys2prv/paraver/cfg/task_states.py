"""States of devices and hosts by task, from which the tables of figures are made."""

from __future__ import annotations

from nsys2prv.model import event_types as types
from nsys2prv.model.event_type import EventType
from nsys2prv.paraver.cfg.text import DerivedWindow, Events, Level, SingleWindow
from nsys2prv.paraver.cfg.windows import COMPUTE, MPI_EVENTS, inside, nesting, of, outermost, present, running

# The host goes on while a stream waits for an event.
HOST_WAITS = "In Evt Val { 1, { 4 1 3 4 5 } }"


def overlap() -> DerivedWindow:
    """Show 1 while NCCL runs and nothing computes, 2 while both do, 0 without NCCL."""
    compute = SingleWindow(
        "2 while kernels compute, else 1",
        present(*COMPUTE),
        level="task",
        functions={"task": "AddingSign"},
        compose={"compose_thread": "Sign", "compose_task": "Add { 1, { 1 1 } }"},
    )
    nccl = running("NCCL runs", of(types.NCCL_KERNEL))
    return DerivedWindow("Communication", "product", compute, nccl, level="task")


def device_state(useful: tuple[EventType, ...], moves: tuple[EventType, ...]) -> DerivedWindow:
    """Show 2 while useful work runs, 1 while only other work does."""
    parts = (running("Useful", present(*useful)), running("Moves data", present(*moves)))
    return DerivedWindow("Device state", "maximum", *parts, level="task", factors=(2.0, 1.0))


def log_duration() -> DerivedWindow:
    """Show the base 2 logarithm of each kernel's duration in ns, NCCL's too."""
    kernel = of(types.KERNEL_CLASS)
    log = {"compose_thread": "Burst Time", "topcompose1": "log N { 1, { 1 2 } }"}
    timed = SingleWindow("log2 of duration, gaps too", kernel, compose=log)
    active = SingleWindow("Running", kernel, compose={"compose_thread": "Sign"})
    return DerivedWindow("log2 of duration [ns]", "product", timed, active)


def iteration(name: str, ranges: Events) -> DerivedWindow:
    """Show the outermost NVTX range of each task within the window of interest."""
    own = outermost(name, ranges)
    functions: dict[Level, str] = {"task": "Maximum"}
    return DerivedWindow(f"{name} in the window", "product", own, inside("thread"), level="task", functions=functions)


def host_state() -> DerivedWindow:
    """Show 3 in MPI, 2 in a CUDA synchronization, 1 in another CUDA call, of any thread of the task."""
    calls = nesting("CUDA call", of(types.CUDA_API))
    waits = running("CUDA synchronization", of(types.SYNCHRONIZATION), function=HOST_WAITS)
    cuda = DerivedWindow("CUDA", "maximum", calls, waits, level="task", factors=(1.0, 2.0))
    return DerivedWindow("Host state", "maximum", cuda, nesting("MPI", MPI_EVENTS), level="task", factors=(1.0, 3.0))

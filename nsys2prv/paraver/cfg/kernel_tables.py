"""Tables of kernels: their time, durations and tensor activity, by name or class."""

from __future__ import annotations

from dataclasses import replace

from nsys2prv.model import event_types as types
from nsys2prv.paraver.cfg import nsys_options
from nsys2prv.paraver.cfg.tables import BY_ROW, Figure, by_row
from nsys2prv.paraver.cfg.text import Cfg, DerivedWindow, Histogram, SingleWindow, fixed
from nsys2prv.paraver.cfg.windows import (
    LONGEST_BURST,
    burst_length,
    of,
    one_a_thread,
    or_nothing,
    running,
    values,
    within,
)


def _kernels() -> SingleWindow:
    return values("CUDA kernel", of(types.KERNEL))


def _classes() -> SingleWindow:
    return values("Kernel class", of(types.KERNEL_CLASS))


def _duration() -> DerivedWindow:
    """Show how long each kernel other than NCCL's lasts: see `burst_length`."""
    rounded = {"compose_thread": "Burst Time", "topcompose1": "Ceil"}
    timed = SingleWindow("Duration, gaps too", of(types.KERNEL), compose=rounded)
    active = SingleWindow("Running", of(types.KERNEL), compose={"compose_thread": "Sign"})
    return burst_length("Kernel", active, timed)


def _beside_nccl() -> DerivedWindow:
    """Show 1 in each kernel during which an NCCL kernel runs on the same rank, however short."""
    nccl = running("NCCL runs", or_nothing(types.NCCL_KERNEL))
    seen = DerivedWindow("NCCL runs, seen by every row", "product", one_a_thread(), nccl)
    return DerivedWindow("Beside NCCL", "controlled: maximum", seen, _kernels())


def _durations(beside: bool) -> Cfg:
    """Make the histogram of durations of kernels that run beside NCCL's, or of the others."""
    words = "beside communication" if beside else "without communication beside"
    name = "kernel_durations_beside_nccl" if beside else "kernel_durations_alone"
    title = f"How many kernels last how long, by name, {words} [us]"
    other = "kernel_durations_alone" if beside else "kernel_durations_beside_nccl"
    about = f"""Do kernels take longer while NCCL runs? Column n us counts the kernels that last up to n us, and longer
than n - 1; column {LONGEST_BURST} has the longer ones, too. NCCL's are left out. A plane for each kernel, GEMM by
layout and tile: choose one in the histogram's 3D menu, and compare with {other}. {BY_ROW}"""
    chosen = _beside_nccl()
    if not beside:
        chosen = replace(chosen, name="Without NCCL", compose={"topcompose1": "1-Sign"})
    control = within(
        "Kernel duration in the window", DerivedWindow(f"Duration {words}", "product", _duration(), chosen)
    )
    histogram = Histogram(title, control, "# Bursts", fixed(1, LONGEST_BURST), planes=_kernels())
    return Cfg("analysis", name, title, about, nsys_options.CUDA, histograms=(histogram,), unit="Microseconds")


CFGS: tuple[Cfg, ...] = (
    by_row(
        "kernel_time",
        "Kernel time by name [ms]",
        f"How long does each kernel run in all? Time in each kernel within the window of interest. {BY_ROW}",
        nsys_options.CUDA,
        _kernels(),
        Figure("Time"),
    ),
    by_row(
        "kernel_time_by_class",
        "Kernel time by class [ms]",
        f"""Which kind of kernel takes the time? Time in the kernels of each class, NCCL's too, within the window of
interest. {BY_ROW}""",
        nsys_options.CUDA,
        _classes(),
        Figure("Time"),
    ),
    by_row(
        "kernel_duration",
        "Mean kernel duration by name [us]",
        f"How long does one run of each kernel take? Mean duration of each kernel's runs. {BY_ROW}",
        nsys_options.CUDA,
        _kernels(),
        Figure("Average Burst Time", unit="Microseconds"),
    ),
    by_row(
        "kernel_duration_by_class",
        "Mean kernel duration by class [us]",
        f"""How long does one kernel of each class take? Mean duration of the kernels of each class, NCCL's too.
{BY_ROW}""",
        nsys_options.CUDA,
        _classes(),
        Figure("Average Burst Time", unit="Microseconds"),
    ),
    _durations(beside=False),
    _durations(beside=True),
    by_row(
        "tensor_activity",
        "Tensor core activity by kernel class [%] (estimate)",
        f"""How busy are tensor cores in kernels of each class? Tensor activity [%] while kernels of each class run on
each GPU, estimated from all samples of the run as `nsys2prv analyze --by class --window device` does. Traces of
runs with GPU metrics have it. A class without a column has an estimate of 0, or none: `analyze` says
why. The mean of the samples as they are held inside kernels, which mixes what runs side by side, is
in hwcounters/tensor_active. {BY_ROW}""",
        nsys_options.CUDA_METRICS,
        _classes(),
        Figure(
            "Average value",
            values("Tensor activity of the class [%] (estimate)", of(types.TENSOR_ESTIMATE)),
            percent=True,
        ),
    ),
)

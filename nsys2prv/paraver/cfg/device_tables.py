"""Tables of how each rank's device spends its time: efficiency, states, overlap, iterations."""

from __future__ import annotations

from dataclasses import replace

from nsys2prv.model import event_types as types
from nsys2prv.model.event_type import EventType
from nsys2prv.model.table_columns import DEVICE_STATES, EFFICIENCY_FACTORS, OVERLAP
from nsys2prv.paraver.cfg import nsys_options
from nsys2prv.paraver.cfg.basics import DEFAULT_RANGES, PROCESS_RANGES
from nsys2prv.paraver.cfg.efficiency import factor_names, factors, factors_by_span
from nsys2prv.paraver.cfg.look import PERCENT
from nsys2prv.paraver.cfg.tables import ALL_DEVICES, ONE_DEVICE, Figure, shares, single_figure, table
from nsys2prv.paraver.cfg.task_states import device_state, iteration, overlap
from nsys2prv.paraver.cfg.text import Cfg, DerivedWindow, Histogram, fixed
from nsys2prv.paraver.cfg.windows import (
    COMPUTE_TYPES,
    LONGEST_BURST,
    ON_DEVICE,
    burst_length,
    computing,
    in_percent,
    running,
    within,
)

NCCL_IS_COMMUNICATION = (COMPUTE_TYPES, (types.MEMORY, types.NCCL_KERNEL))
NCCL_IS_USEFUL = ((*COMPUTE_TYPES, types.NCCL_KERNEL), (types.MEMORY,))
FACTORS = fixed(1, len(EFFICIENCY_FACTORS))


def _pop_by_iteration() -> Cfg:
    title = "POP efficiencies of all ranks by iteration [%]"
    about = f"""Which iteration loses time, and to what? The factors of pop_efficiency, a table each, by outermost NVTX
range of the default domain, as projected on the device: of the span of the window of interest that the range lies in,
by default an iteration over all ranks. Iterations that overlap in time are one span, and have its factors:
`nsys2prv analyze` tells them apart. {ALL_DEVICES}"""
    histograms = tuple(
        Histogram(
            factor.name,
            iteration("Outermost NVTX range on the device", PROCESS_RANGES, "appl"),
            "Average value",
            data=factor,
            scale=PERCENT,
        )
        for factor in factors_by_span()
    )
    return Cfg("analysis", "pop_by_iteration", title, about, nsys_options.CUDA_NVTX, histograms=histograms)


def _useful_bursts() -> Cfg:
    title = "How many useful bursts of each rank's device last how long [us]"
    about = f"""Does the device compute in many short bursts, each with its launch, or in few long ones? Column n us
counts the bursts of useful time (kernels other than NCCL's or CUDA graphs, without a gap between them) that last up to
n us, and longer than n - 1; column {LONGEST_BURST} has the longer ones, too. A burst at the border of the window of
interest counts with its whole length. {ONE_DEVICE}"""
    # Where kernels of several streams overlap, Paraver would take a burst for several.
    joined = running("Useful", computing(*COMPUTE_TYPES))
    joined = replace(joined, compose={**joined.compose, "topcompose2": "Sign", "topcompose1": "Join Bursts"})
    rounded = {"compose_task": "Burst Time", "topcompose1": "Ceil"}
    timed = DerivedWindow("Length, gaps too", "product", joined, joined, level="task", compose=rounded)
    control = within("Useful bursts in the window", burst_length("Useful", joined, timed))
    histogram = Histogram(title, control, "# Bursts", fixed(1, LONGEST_BURST))
    return Cfg("analysis", "useful_bursts", title, about, nsys_options.CUDA, histograms=(histogram,))


def _efficiency(suffix: str, model: tuple[tuple[EventType, ...], tuple[EventType, ...]], words: str) -> tuple[Cfg, Cfg]:
    states = shares(
        f"device_states{suffix}",
        f"Shares of useful, communicating and idle time, {words}",
        f"""How much of the window of interest does each device compute, only communicate or copy, or idle [%]?
{ONE_DEVICE} Averages skip a rank without the state: see parallel_efficiency{suffix} for ranks that do nothing.""",
        nsys_options.CUDA,
        device_state(*model),
        (DEVICE_STATES, DEVICE_STATES + 2),
    )
    parallel = single_figure(
        f"parallel_efficiency{suffix}",
        f"Device parallel efficiency and load balance, {words}",
        f"""How much of the window of interest does each rank's device do useful work [%]? Average = parallel
efficiency, Avg/Max = load balance, Maximum / Maximum of device_busy = communication efficiency; ranks that do nothing
count. {ONE_DEVICE}""",
        nsys_options.CUDA,
        "Parallel efficiency [%]",
        Figure("Average value", in_percent(running("Useful", computing(*model[0]))), percent=True),
    )
    return states, parallel


CFGS: tuple[Cfg, ...] = (
    table(
        "pop_efficiency",
        "POP efficiencies of all ranks [%]",
        f"""Where is time lost? Parallel efficiency = load balance x communication efficiency x orchestration
efficiency, and communication efficiency = serialization (waiting for other ranks) x transfer, over the window of
interest, with NCCL as communication: the factors of `nsys2prv analyze`. {ALL_DEVICES}""",
        nsys_options.CUDA,
        factor_names("appl"),
        Figure("Average value", factors("appl"), percent=True),
        FACTORS,
    ),
    table(
        "pop_efficiency_by_rank",
        "POP efficiencies by rank [%]",
        f"""Which rank's device loses time, and to what? Of each device by itself: parallel efficiency = communication
efficiency x orchestration efficiency, and communication efficiency = serialization (waiting for other ranks) x
transfer, over the window of interest, with NCCL as communication. The load balance is the Avg/Max of the parallel
efficiency. {ONE_DEVICE}""",
        nsys_options.CUDA,
        factor_names("task"),
        Figure("Average value", factors("task"), percent=True),
        FACTORS,
    ),
    _pop_by_iteration(),
    *_efficiency("", NCCL_IS_COMMUNICATION, "NCCL as communication"),
    *_efficiency("_nccl_useful", NCCL_IS_USEFUL, "NCCL as useful"),
    single_figure(
        "device_busy",
        "Share of time in which each rank's device is busy",
        f"""How much of the window of interest is each rank's device busy with kernels, CUDA graphs, NCCL or copies [%]?
Maximum = orchestration efficiency. {ONE_DEVICE}""",
        nsys_options.CUDA,
        "Busy [%]",
        Figure("Average value", in_percent(running("Busy", computing(*ON_DEVICE))), percent=True),
    ),
    single_figure(
        "useful_time",
        "Useful time of each rank's device, and its balance [ms]",
        f"""How long does each rank's device compute within the window of interest: kernels other than NCCL's, or CUDA
graphs? Avg/Max = balance. {ONE_DEVICE}""",
        nsys_options.CUDA,
        "Useful time [ms]",
        Figure("Integral", running("Useful", computing(*COMPUTE_TYPES))),
    ),
    _useful_bursts(),
    shares(
        "overlap_of_communication",
        "Communication/compute overlap, share of communication time",
        f"""What runs beside NCCL's kernels: nothing that computes (exposed), or how many kernels at once? % of the
communication time in the window of interest. {ALL_DEVICES}""",
        nsys_options.NCCL,
        overlap(),
        (OVERLAP + 1, OVERLAP + 4),
    ),
    shares(
        "overlap_of_window",
        "Communication/compute overlap, share of the window of interest",
        f"""How much of the window of interest is communication, exposed or beside how many kernels that compute?
% of the window. {ALL_DEVICES}""",
        nsys_options.NCCL,
        overlap(),
        (OVERLAP, OVERLAP + 4),
    ),
    table(
        "iteration_time",
        "Iteration time by rank [ms]",
        """How long does each iteration take each rank? Duration of each outermost NVTX range of the default domain, by
rank, cut at the window of interest. Where several threads of a rank are in different ranges, the later in order of
label counts, and hides the others. The rank with the Maximum of a column is the slow one.""",
        nsys_options.NVTX,
        iteration("Outermost NVTX range", DEFAULT_RANGES),
        Figure("Time"),
    ),
    table(
        "iteration_efficiency",
        "Device parallel efficiency by iteration [%]",
        f"""How well does each iteration use the devices? Share of each outermost NVTX range of the default domain, as
projected on the device, in which the rank's device computes, NCCL as communication. Where two streams work on different
ranges, the later in order of label counts; where an inner range covers one whole, it is not seen. Average = parallel
efficiency of the iteration, Avg/Max = load balance. {ONE_DEVICE}""",
        nsys_options.CUDA_NVTX,
        iteration("Outermost NVTX range on the device", PROCESS_RANGES),
        Figure("Average value", in_percent(running("Useful", computing(*COMPUTE_TYPES))), percent=True),
    ),
)

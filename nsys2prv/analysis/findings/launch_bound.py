"""Devices run dry because hosts launch too late: findings `launch-bound`, `host-bound`, `blocking-launches`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import polars as pl

from nsys2prv.analysis.facts.case import Case, usual
from nsys2prv.analysis.facts.chief_gap import IdlePlaces, chief_gap, idle_places, seen_in_gap, where_text
from nsys2prv.analysis.facts.code_loading import advice_on_compiling, advice_on_loading, has_ffts, iterations_that_load
from nsys2prv.analysis.facts.elementwise_chains import advice_on_loops
from nsys2prv.analysis.facts.few_iterations import starved_in_few
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.functions_of_hosts import Seen, see_samples
from nsys2prv.analysis.facts.garbage import advice_on_garbage
from nsys2prv.analysis.facts.graphs_in_loop import advice_on_graphs
from nsys2prv.analysis.facts.host_compute import computes_between_copies, on_device_instead
from nsys2prv.analysis.facts.latecomers import shared_compute
from nsys2prv.analysis.facts.long_calls import (
    advice_on_blocking_copies,
    advice_on_long_call,
    calls_meanwhile,
    long_call,
)
from nsys2prv.analysis.facts.many_operations import advice_on_operations
from nsys2prv.analysis.facts.round_trips import advice_on_round_trips
from nsys2prv.analysis.facts.rounds import advice_on_rounds
from nsys2prv.analysis.facts.starved import PARTS
from nsys2prv.analysis.facts.thresholds import (
    BLOCKING,
    COMPUTING,
    GAP,
    IN_COPIES,
    LONG_PAUSE,
    NEARLY_ALL,
    ONE_PAUSE,
    SHORT_KERNEL,
    WAITS_IN_GRAPH,
)
from nsys2prv.analysis.facts.waits_of_hosts import WAITING, copies_data, waits_by_rank, waits_more
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import COPY, GRAPH, NCCL
from nsys2prv.analysis.idle.launches import blocking_share, share_of_graphs
from nsys2prv.analysis.interval_frames import at_longest
from nsys2prv.families.host.cuda_api import LAUNCHING
from nsys2prv.model.device_kinds import DeviceKind
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import short

_NAME = pl.col("name").cast(pl.String)
# Calls that return when their copy is done.
BLOCKING_COPY = _NAME.str.contains(LAUNCHING[DeviceKind.COPY]) & ~_NAME.str.contains("Async|Batch")
LAUNCH_LESS = Words(
    general="Launch less often: CUDA graphs, fused kernels, more work in each (PyTorch: torch.compile mode "
    "reduce-overhead; JAX: a whole step in one jax.jit).",
    pytorch="Launch less often: CUDA graphs (torch.cuda.graph, torch.compile mode reduce-overhead), fused kernels and "
    "optimizers, larger batches.",
    jax="Launch less often: a whole step in one jax.jit, several steps in one lax.scan or lax.fori_loop, larger "
    "batches.",
    cupy="Launch less often: CUDA graphs (begin_capture of CuPy's streams), fused kernels (cupy.fuse, "
    "ElementwiseKernel, a kernel of your own), more work in each.",
    cuda="Launch less often: CUDA graphs (capture a step by cudaStreamBeginCapture, then cudaGraphLaunch), fused "
    "kernels, more work in each.",
)
PROCESSES = Words(
    general="start one for each GPU, as threads of a Python process take turns",
    pytorch="start one for each GPU, as threads of a Python process take turns (DistributedDataParallel in place of "
    "DataParallel)",
    jax="start one for each GPU (jax.distributed.initialize), as threads of one process share locks of the driver",
    cuda="start one for each GPU, as threads of one process share locks of the driver",
)
LARGER_GRAPHS = Words(
    general="CUDA graphs launch these kernels already: put more into a graph (several steps, layers or tokens), so "
    "that fewer are launched.",
    jax="CUDA graphs of XLA launch these kernels already: put more into one jax.jit (several steps by lax.scan or "
    "lax.fori_loop), so that fewer are launched.",
    cuda="CUDA graphs launch these kernels already: put more into a graph (several steps), so that fewer are launched.",
)
# nsys profile --cuda-graph-trace has `graph` by default.
NODES_COST = (
    " Recording their kernels one by one makes each launch longer: record with --cuda-graph-trace=graph to see by how "
    "much."
)


def launch_bound(case: Case) -> Iterator[Finding]:
    """Yield the time in which all devices have nothing launched, or wait for ranks that have not."""
    starved = case.idle_of_devices("launching") or [0.0]
    least, mean = min(starved), sum(starved) / len(starved)
    cost = _cost(case, starved)
    kernels = case.analysis.launches.filter(pl.col("rank").is_null() & pl.col("name").is_null())
    if kernels.is_empty() or not cost:
        return
    devices = max(case.run.work.filter(pl.col("kind") != COPY)["device"].n_unique(), 1)
    a_device = max(int(kernels["count"][0]) / case.step_count / devices, 1)
    median, gap = float(kernels["kernel_p50_ns"][0]), mean / a_device
    of_short = median < SHORT_KERNEL.value and gap < GAP.value and _single_gaps(case) < ONE_PAUSE.value
    places = _places(case, of_short, gap)
    seen = seen_in_gap(case, places.gap, case.usual_time())
    blocking = _blocking(case, median, float(kernels["call_p50_ns"][0] or 0))
    kind = "blocking-launches" if blocking else "launch-bound" if of_short else "host-bound"
    in_few = "" if of_short else starved_in_few(case, "launching")
    title, advice = (
        _of_blocking()
        if blocking
        else _of_launches(case, a_device, median, places, seen)
        if of_short
        else _of_host(case, mean, places, seen, in_few)
    )
    yield Finding(
        kind,
        f"{title}, {text_ms(cost)} {case.unit}{in_few}",
        cost,
        advice,
        iterations=case.iterations,
        evidence={
            "starved_ns": round(mean),
            "hosts_wait_ns": round(_longest_host_wait(case)),
            "gain_without_launch_cost_ns": round(case.gain("launch=0")),
            "kernels_on_a_device": round(a_device),
            "kernel_p50_ns": round(median),
            "call_p50_ns": kernels["call_p50_ns"][0],
            "gap_of_kernel_ns": round(gap),
            **seen.evidence,
        },
        confidence="high" if least >= 0.5 * mean else "medium",
        command="nsys2prv analyze RUN --show launches,queues,idle",
        cfg="views/kernels_in_flight",
        at_ns=case.starved.select(at_longest("longest", "at")).item(),
    )


def _cost(case: Case, starved: Sequence[float]) -> float:
    """Return what launches cost (ns of an iteration). `starved`: time of each device with nothing launched."""
    least, mean, gain = min(starved), sum(starved) / len(starved), case.gain("launch=0")
    # Devices that wait for other ranks wait for hosts, too. Subtract the longest wait of a host: that time is due to a
    # late rank, and not to launches.
    waiting = min(mean + _waiting(case, max(starved)), case.iteration_ns) - _longest_host_wait(case)
    cost = max(least, min(gain, mean), waiting)
    if case.run.rank_count == 1 and len(starved) > 1:
        # GPUs of one process lack work in turns, as where one waits for another's data.
        return min(cost, max(gain, case.gain("host=0")))
    return cost


def _places(case: Case, of_short: bool, gap: float) -> IdlePlaces:
    """Return where devices have no launched work. `of_short`: launches of short kernels leave `gap` ns each."""
    covered = case.usual_time()
    if of_short:
        return idle_places(case, covered, LONG_PAUSE.value * gap)
    return IdlePlaces(chief_gap(case, covered), "")


def _blocking(case: Case, kernel: float, call: float) -> bool:
    """Return True if nearly all launches return when their kernel has ended. `kernel`, `call`: median times (ns)."""
    # The share costs a pass over all calls; where it is high, the median call is longer than the median kernel.
    return call >= kernel and blocking_share(case.run, case.analysis.window.spans) >= BLOCKING.value


def _of_blocking() -> tuple[str, str]:
    """Return title and advice where each launch waits for its kernel."""
    return (
        "Launches wait for their kernels, so that the host never runs ahead: the device has no work",
        "Unset CUDA_LAUNCH_BLOCKING, which is for debugging, and leave out tools that set it.",
    )


def _of_launches(case: Case, kernels: float, median: float, places: IdlePlaces, seen: Seen) -> tuple[str, str]:
    """Return title and advice where many kernels (on a device, of `median` ns) are launched too slowly.

    `places`: where the device has no work; `seen`: what samples say of that time. A CUDA graph holds no call that waits
    for the device (CUDA programming guide, prohibited operations of a capture).
    """
    operations = advice_on_operations(case)
    graphs = _of_graphs(case)
    # Graphs launch loops at once already.
    loops = "" if graphs else advice_on_loops(case, kernels)
    # How to launch the rounds of a loop at once is all that the general advice would say.
    rounds = "" if graphs or loops else advice_on_rounds(case, kernels)
    launch_less = " ".join(filter(None, (operations, rounds or graphs or LAUNCH_LESS.of(case.framework))))
    single = round(kernels) == 1
    many = f"{kernels:,.0f} kernel{'s' * (not single)} of {median / 1000:.1f} us leave{'s' * single}"
    return (
        f"Launch-bound: {many} the device without work",
        f"{_processes_for_gpus(case)}{_advice_on_places(places, seen)}{_advice_on_waits(case)}{loops}{launch_less}",
    )


def _of_graphs(case: Case) -> str:
    """Return advice where graphs launch nearly all kernels; else nothing."""
    if share_of_graphs(case.run, case.analysis.window.spans) < NEARLY_ALL.value:
        return ""
    one_by_one = case.run.work.filter(pl.col("kind") == GRAPH).is_empty()
    return f"{LARGER_GRAPHS.of(case.framework)}{NODES_COST if one_by_one else ''}"


def _advice_on_places(places: IdlePlaces, seen: Seen) -> str:
    """Return advice on gaps that no launch explains, or on the range with most of the time; empty without these."""
    gap, busiest = places
    if gap is not None:
        did = f": {seen.text}" if seen.text else ""
        return f"Not all of it is launches: see what the host does{where_text(gap)}{did}. "
    return f"Most of that time is in `{short(busiest, 40)}`: begin there. " if busiest else ""


def _advice_on_waits(case: Case) -> str:
    """Return advice on waits for the device, which no CUDA graph can hold: of all ranks, or mostly of one."""
    waits = waits_by_rank(case, usually=True)
    # A rank that saves for all is late, and does so in few iterations.
    waits = {r: n for r, n in waits.items() if not (waits_more(waits, r) and copies_data(case, r, usually=True))}
    mean = sum(waits.values()) / max(len(waits), 1)
    if mean < WAITS_IN_GRAPH.value:
        return ""
    most = max(waits, key=lambda rank: waits[rank])
    of_one = waits_more(waits, most)
    whose = f"{waits[most]:.0f} waits of rank {most}'s host" if of_one else f"{mean:.0f} waits of the host"
    return (
        f"First remove the {whose} for the device in an iteration ({WAITING.of(case.framework)}): no CUDA graph can "
        "hold them. "
    )


def _of_host(case: Case, starved: float, places: IdlePlaces, seen: Seen, in_few: str) -> tuple[str, str]:
    """Return title and advice where the host does other things than to launch for the device.

    `starved`: time in which a device has nothing launched (ns of an iteration, the mean); `places`: where it has none;
    `seen`: what samples say of that time; `in_few`: words on the few iterations with nearly all of it.
    """
    if (gpus := _gpus_of_a_thread(case)) > 1:
        return (
            f"Host-bound: one thread launches for {gpus} GPUs in turn, and each has no work meanwhile",
            f"Launch from a process for each GPU. {LAUNCH_LESS.of(case.framework)}",
        )
    if _in_copies(case) >= IN_COPIES.value * starved:
        return (
            "Host-bound: the host is in blocking copies, and the device has no work",
            advice_on_blocking_copies(case),
        )
    if loading := iterations_that_load(case):
        return (
            f"Host-bound: code is loaded in {loading} of {case.step_count} iterations, as where kernels are compiled "
            f"or tried for new shapes{', or plans of FFTs are made' * has_ffts(case)}, and the device has no work",
            f"{_processes_for_gpus(case)}{advice_on_loading(case)}",
        )
    place = where_text(places.gap)
    if call := long_call(case, starved):
        # Part of the call may count for another cause, as a wait for the device that ends in it.
        lasting = f" for {text_ms(call.ns)}" if call.ns <= starved else ""
        return (
            f"Host-bound: the host is in `{call.name}`{lasting}, and the device has no work",
            f"{_processes_for_gpus(case)}{advice_on_graphs(case)}{advice_on_long_call(case, call.name)}"
            + (f" Look{place}." if place else ""),
        )
    first = f"{_processes_for_gpus(case)}{advice_on_graphs(case)}"
    between = computes_between_copies(case)
    computes = seen.computing >= COMPUTING.value
    place_of_work = " between a copy from the device and one to it" if between else ""
    title = f"Host-bound: the host {'computes' if computes else 'works'}{place_of_work}, and the device has no work"
    instead = on_device_instead(case, seen, between)
    if not between and not computes and advice_on_round_trips(case):
        instead = "where data goes to the device again, leave it there"
    if between and computes:
        return title, f"{first}{seen.text[:1].upper()}{seen.text[1:]}; {instead}."
    return (
        title if between or computes else "Host-bound: the device has no work while the host is busy between launches",
        f"{first}See what the host does{place or ' between launches'}: {see_samples(case.run, seen, in_table=True)}"
        f"{advice_on_compiling(case, seen) or advice_on_garbage(case, seen, in_few) or f'; {instead}'}.",
    )


def _processes_for_gpus(case: Case) -> str:
    """Return advice for a process whose threads launch for several GPUs."""
    gpus = max((len(own) for own in shared_compute(case).values()), default=1)
    return f"One process launches for {gpus} GPUs: {PROCESSES.of(case.framework)}. " if gpus > 1 else ""


def _gpus_of_a_thread(case: Case) -> int:
    """Return for how many GPUs one thread launches, at most, if it launches nearly all work of its process."""
    launches = case.run.work.select("task", "caller_row", "device").filter(pl.col("caller_row").is_not_null())
    by_thread = launches.group_by("task", "caller_row").agg(count=pl.len(), gpus=pl.col("device").n_unique())
    most = by_thread.filter(pl.col("count") >= NEARLY_ALL.value * pl.col("count").sum().over("task"))
    return int(most["gpus"].max() or 0)  # type: ignore[arg-type]


def _in_copies(case: Case) -> float:
    """Return how long a host is in blocking copies while its device does nothing (ns of an iteration, the mean)."""
    of_cuda = (pl.col("kind") == "cuda") & BLOCKING_COPY
    if case.kept_calls(case.run.calls.filter(of_cuda)).is_empty():
        return 0.0
    return float(calls_meanwhile(case, of_cuda)["each_ns"].sum())


def _single_gaps(case: Case) -> float:
    """Return the share of the time before launches that is in one idle time of each iteration, at least; else 0."""
    if not case.analysis.window.iterations:
        return 0.0
    others = pl.sum_horizontal(*PARTS) - pl.col("launching")
    single = (pl.col("longest") - others).clip(lower_bound=0)
    usually = (
        case.usual_starved()
        .group_by("device", maintain_order=True)
        .agg(single=usual(single), launching=usual(pl.col("launching")))
    )
    return float(usually.select(pl.col("single").sum() / pl.col("launching").sum().clip(lower_bound=1)).item() or 0)


def _waiting(case: Case, starved: float) -> float:
    """Return how long a device waits for others while it computes nothing (ns of an iteration, the mean).

    It counts up to `starved`, the longest time in which a device has nothing launched: hosts delay others no longer.
    """
    devices = max(case.run.work["device"].n_unique(), 1)
    # All devices of a rank wait while it is in MPI.
    of_rank = Counter(device.rank for device in case.run.devices)
    sharing = pl.col("rank").replace_strict(of_rank, default=1, return_dtype=pl.Int64)
    each = pl.when(pl.col("kind") == NCCL).then(1).otherwise(sharing)
    exposed = case.analysis.explanation.exposed.select((pl.col("exposed_waiting_ns") * each).sum()).item()
    return min(float(exposed) / case.step_count / devices, starved)


def _longest_host_wait(case: Case) -> float:
    """Return how long the host waits (ns of an iteration) that waits longest of those that use a device."""
    using = {case.run.rank(task) for task in case.run.work["task"].unique()}
    return max((ns for rank, ns in case.host_waits.items() if rank in using), default=0.0)

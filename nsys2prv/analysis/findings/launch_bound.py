"""Devices run dry because hosts launch too late: findings `launch-bound`, `host-bound`, `blocking-launches`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case, usual
from nsys2prv.analysis.facts.communication.many_operations import advice_on_operations, common_operations
from nsys2prv.analysis.facts.communication.shared_norms import advice_on_shared_norms, common_norms
from nsys2prv.analysis.facts.communication.unused_parameters import advice_on_unused_parameters
from nsys2prv.analysis.facts.devices.elementwise_chains import advice_on_loops, kernels_in_loops
from nsys2prv.analysis.facts.devices.rounds import advice_on_rounds
from nsys2prv.analysis.facts.few_iterations import starved_in_few
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.hosts.blocking_launches import UNSET, all_block, blocking_ranks
from nsys2prv.analysis.facts.hosts.busy_hosts import busy_host
from nsys2prv.analysis.facts.hosts.chief_gap import IdlePlaces, chief_gap, idle_places, seen_in_gap, where_text
from nsys2prv.analysis.facts.hosts.code_loading import common_loading
from nsys2prv.analysis.facts.hosts.copied_inputs import advice_on_inputs, common_inputs
from nsys2prv.analysis.facts.hosts.fewer_launches import LAUNCH_LESS, advice_on_processes, other_ways
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen
from nsys2prv.analysis.facts.hosts.garbage import common_garbage
from nsys2prv.analysis.facts.hosts.kernels_between_waits import kernels_between_waits
from nsys2prv.analysis.facts.hosts.launch_cost import (
    LaunchCost,
    StarvedDevices,
    launch_cost,
    lengths_of_kernels,
    longest_host_wait,
    starved_devices,
)
from nsys2prv.analysis.facts.hosts.long_calls import LongLaunches, advice_on_repeated_calls, long_launches
from nsys2prv.analysis.facts.hosts.values_read import advice_on_values
from nsys2prv.analysis.facts.hosts.waits_of_hosts import code_that_waits, copies_data, waits_by_rank, waits_more
from nsys2prv.analysis.facts.ranks.latecomers import latecomer_ranks
from nsys2prv.analysis.facts.thresholds import (
    GAP,
    LEAST_WAITING,
    LONG_PAUSE,
    NEARLY_ALL,
    ONE_PAUSE,
    PART_OF_LAUNCHES,
    SHORT_KERNEL,
    WAITS_IN_GRAPH,
    WAITS_OF_KERNELS,
)
from nsys2prv.analysis.findings.finding import OTHERS_WAIT, Finding, named_ranks
from nsys2prv.analysis.frames import COPY, GRAPH
from nsys2prv.analysis.idle.launches import share_of_graphs
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import few_ranks, short

LARGER_GRAPHS = Words(
    general="CUDA graphs launch these kernels already: put more into a graph (several steps, layers or tokens), so "
    "that fewer are launched.",
    jax="CUDA graphs of XLA launch these kernels already: put more into one jax.jit (several steps by lax.scan or "
    "lax.fori_loop), so that fewer are launched.",
    cuda="CUDA graphs launch these kernels already: put more into a graph (several steps), so that fewer are launched.",
)
# What this advice shares with that of other findings.
COMMON = (common_norms, common_operations, common_loading, common_inputs, common_garbage)
# nsys profile --cuda-graph-trace has `graph` by default.
NODES_COST = (
    " Recording their kernels one by one makes each launch longer: record with --cuda-graph-trace=graph to see by how "
    "much."
)


class HostBound(NamedTuple):
    """Title and advice of `host-bound`, and the ranks that it names. `ending`: the times, which follow the title."""

    title: str
    advice: str
    ranks: tuple[int, ...]
    ending: str


def launch_bound(case: Case) -> Iterator[Finding]:
    """Yield the time in which all devices have nothing launched, or wait for ranks that have not."""
    starved = case.idle_of_devices("launching") or [0.0]
    least, mean = min(starved), sum(starved) / len(starved)
    cost = launch_cost(case, starved)
    kernels = case.analysis.launches.filter(pl.col("rank").is_null() & pl.col("name").is_null())
    if kernels.is_empty() or not cost.ns:
        return
    devices = max(case.run.work.filter(pl.col("kind") != COPY)["device"].n_unique(), 1)
    a_device = max(int(kernels["count"][0]) / case.step_count / devices, 1)
    median, gap = float(kernels["kernel_p50_ns"][0]), mean / a_device
    long = long_launches(case, mean)
    pause = max(_single_gaps(case), 0.0 if long is None else long.share)
    of_short = median < SHORT_KERNEL.value and gap < GAP.value and pause < ONE_PAUSE.value
    places = _places(case, of_short, gap)
    seen = seen_in_gap(case, places.gap, case.usual_time())
    in_few = "" if of_short else starved_in_few(case, "launching")
    spare: tuple[str, ...] = ()
    ending = f", {text_ms(cost.measured_ns)} {case.unit}{in_few}{cost.of_replay}"
    most = starved_devices(case)
    ranks: tuple[int, ...] = ()
    if all_block(case):
        rule, (title, advice) = "blocking-launches", _of_blocking()
    elif of_short:
        rule, (title, advice) = "launch-bound", _of_launches(case, mean, a_device, median, places, seen)
        title += _waiting_for(case) * _others_wait(case, cost.measured_ns, mean)
        spare = (seen.others, _did(seen).replace(seen.others, ""), *_spare_ways(case, a_device))
    else:
        rule = "host-bound"
        title, advice, ranks, ending = _of_host(case, cost, mean, most, places, seen, in_few)
        spare = (seen.others,)
    yield Finding(
        rule,
        f"{title}{ending}",
        cost.ns,
        advice,
        ranks=ranks,
        iterations=case.iterations,
        evidence={
            "starved_ns": round(mean),
            "hosts_wait_ns": round(longest_host_wait(case)),
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
        at_ns=most.at_ns,
        spare=tuple(part for part in spare if part),
        common=tuple(part for common in COMMON for part in common(case, advice)),
    )


def _did(seen: Seen) -> str:
    """Return what samples show of a host, to follow a place; empty if they show nothing."""
    return f": {seen.text}" if seen.text else ""


def _spare_ways(case: Case, kernels: float) -> tuple[str, ...]:
    """Return what the advice on launches can do without: code that waits, where copies say it, and ways to launch less.

    Beside loops, which say one, no way is needed; and beside rounds, which have more of the kernels, no loops.
    """
    less, others, loops = LAUNCH_LESS.of(case.framework), other_ways(case.framework), advice_on_loops(case, kernels)
    if loops and not _mostly_looped(case, kernels) and advice_on_rounds(case, kernels):
        return (loops,)
    ways = (f" {less}",) if loops else (others, f" {less.replace(others, '')}")
    return (*ways[:1], f" ({_code_of_waits(case)})", *ways[1:]) if advice_on_inputs(case) else ways


def _others_wait(case: Case, cost: float, starved: float) -> bool:
    """Return True if time in which devices wait for ranks that have not launched is part of the cost.

    `starved`: time in which a device has nothing launched (ns of an iteration, the mean).
    """
    return case.run.rank_count > 1 and cost > (1 + LEAST_WAITING.value) * starved


def _waiting_for(case: Case) -> str:
    """Return the words for devices that wait for ranks whose hosts launch late, with the rank if a single one does."""
    late = [one.member for one in latecomer_ranks(case) if not one.by_compute]
    return f" or waiting for a rank that has not launched{f', mostly rank {late[0]}' if len(late) == 1 else ''}"


def _of_host(
    case: Case, cost: LaunchCost, mean: float, most: StarvedDevices, places: IdlePlaces, seen: Seen, in_few: str
) -> HostBound:
    """Return what `host-bound` says: of the starved devices and their ranks, if others wait for these.

    The cost is of both then: no device has that time. `mean`, `in_few`: see busy_host.
    """
    if not _others_wait(case, cost.measured_ns, mean):
        title, advice = busy_host(case, mean, places, seen, in_few)
        return HostBound(title, advice, (), f", {text_ms(cost.measured_ns)} {case.unit}{in_few}{cost.of_replay}")
    gain = f"faster hosts gain {text_ms(cost.ns)}"
    ranks = _late_ranks(case, most)
    title, advice = busy_host(case, mean, places, seen, in_few, _whose(case, most.devices, ranks) if ranks else "")
    if not ranks:
        return HostBound(title, advice, (), f", or waits for a rank that has not launched: {gain} {case.unit}{in_few}")
    up_to, whom = ("", "it") if len(most.devices) == 1 else ("up to ", "them")
    long = f"{up_to}{text_ms(most.ns)} {case.unit}"
    return HostBound(title, advice, named_ranks(ranks), f", {long}{OTHERS_WAIT}{whom}: {gain}{in_few}")


def _late_ranks(case: Case, most: StarvedDevices) -> set[int]:
    """Return the ranks that use the starved devices, if ranks with other devices wait for them."""
    users = case.device_work.users
    starving = {case.run.rank(task) for task in users.filter(pl.col("device").is_in(most.devices))["task"]}
    return starving if starving < {case.run.rank(task) for task in users["task"]} else set()


def _whose(case: Case, devices: Sequence[int], ranks: set[int]) -> str:
    """Return the words for the devices of ranks, with their verb."""
    own = [case.run.devices[number] for number in devices]
    if len(own) > 1:
        return f"{'the' if len(ranks) > 1 else len(own)} GPUs of {few_ranks(ranks)} have"
    if len(ranks) > 1:
        return f"the GPU of {few_ranks(ranks)} has"
    several = sum(device.rank == own[0].rank for device in case.run.devices) > 1
    return f"GPU {own[0].gpu} of {few_ranks(ranks)} has" if several else f"{few_ranks(ranks)}'s GPU has"


def _places(case: Case, of_short: bool, gap: float) -> IdlePlaces:
    """Return where devices have no launched work. `of_short`: launches of short kernels leave `gap` ns each."""
    covered = case.usual_time()
    if of_short:
        return idle_places(case, covered, LONG_PAUSE.value * gap)
    return IdlePlaces(chief_gap(case, covered), "")


def _of_blocking() -> tuple[str, str]:
    """Return title and advice where each launch waits for its kernel."""
    title = "Launches wait for their kernels, so that the host never runs ahead: the device has no work"
    return title, UNSET


def _advice_on_blocking(case: Case) -> str:
    """Return advice on ranks whose launches wait for their kernels, where those of others do not."""
    ranks = blocking_ranks(case)
    return f"First let launches of {few_ranks(ranks)} not wait for their kernels. {UNSET} " if ranks else ""


def _of_launches(
    case: Case, starved: float, kernels: float, median: float, places: IdlePlaces, seen: Seen
) -> tuple[str, str]:
    """Return title and advice where many kernels (on a device, of `median` ns) are launched too slowly.

    `starved`: how long the device has no work (ns of an iteration, the mean of devices), `places`: where; `seen`: what
    samples say of that time. A CUDA graph holds no call that waits for the device (CUDA programming guide, prohibited
    operations of a capture).
    """
    operations = advice_on_operations(case)
    graphs = _of_graphs(case)
    # Graphs launch loops at once already.
    loops = "" if graphs else advice_on_loops(case, kernels)
    # How to launch the rounds of a loop at once is all that the general advice would say. Loops over tensors have some.
    rounds = "" if graphs or _mostly_looped(case, kernels) else advice_on_rounds(case, kernels)
    launch_less = " ".join(filter(None, (operations, rounds or graphs or LAUNCH_LESS.of(case.framework))))
    # The waits of a host for these are theirs.
    first = _advice_on_blocking(case) or advice_on_shared_norms(case) or _advice_on_waits(case, kernels)
    first += advice_on_repeated_calls(case, starved) + advice_on_unused_parameters(case)
    where = _advice_on_long(long_launches(case, starved)) or _advice_on_places(places, seen)
    single = round(kernels) == 1
    noun = "CUDA graph" if graphs and _recorded_whole(case) else "kernel"
    many = f"{kernels:,.0f} {noun}{'s' * (not single)}{lengths_of_kernels(case, median)} leave{'s' * single}"
    return (
        f"Launch-bound: {many} the device without work",
        f"{advice_on_processes(case)}{where}{first}{loops}{launch_less}",
    )


def _mostly_looped(case: Case, kernels: float) -> bool:
    """Return True if loops over tensors launch as many of the kernels (on a device) as rounds have to."""
    return kernels_in_loops(case) >= PART_OF_LAUNCHES.value * kernels


def _advice_on_long(found: LongLaunches | None) -> str:
    """Return advice on long launching calls; empty without any."""
    if found is None:
        return ""
    return f"For {100 * found.share:.0f} % of that time the host is in `{found.name}` ({found.number}): {found.advice} "


def _of_graphs(case: Case) -> str:
    """Return advice where graphs launch nearly all kernels; else nothing."""
    if share_of_graphs(case.run, case.analysis.window.spans) < NEARLY_ALL.value:
        return ""
    return f"{LARGER_GRAPHS.of(case.framework)}{'' if _recorded_whole(case) else NODES_COST}"


def _recorded_whole(case: Case) -> bool:
    """Return True if a CUDA graph is a single activity of its device, not its kernels."""
    return not case.run.work.filter(pl.col("kind") == GRAPH).is_empty()


def _advice_on_places(places: IdlePlaces, seen: Seen) -> str:
    """Return advice on gaps that no launch explains, or on the range with most of the time; empty without these."""
    gap, busiest = places
    if gap is not None:
        return f"Not all of it is launches: see what the host does{where_text(gap)}{_did(seen)}. "
    return f"Most of that time is in `{short(busiest, 40)}`: begin there. " if busiest else ""


def _advice_on_waits(case: Case, kernels: float) -> str:
    """Return advice on waits for the device, which no CUDA graph can hold: of all ranks, or mostly of one.

    `kernels`: on a device. Without iterations only many waits are those of a loop.
    """
    waits = _waits(case)
    mean = sum(waits.values()) / max(len(waits), 1)
    each = bool(case.analysis.window.iterations)
    if mean < max(WAITS_IN_GRAPH.value, 0 if each else WAITS_OF_KERNELS.value * kernels):
        return ""
    most = max(waits, key=lambda rank: waits[rank])
    of_one = waits_more(waits, most)
    code = _code_of_waits(case)
    whose = f"{waits[most]:,.0f} waits of rank {most}'s host" if of_one else f"{mean:,.0f} waits of the host"
    when = "in an iteration" if each else case.unit
    if (alike := kernels_between_waits(case)) and not of_one:
        return (
            f"The host waits for the device {mean:,.0f} times {case.unit} ({code}), and launches the same {alike:,} "
            "kernels between: compute several inputs at once (a larger batch), or launch these as one CUDA graph. "
        )
    first = f"First remove the {whose} for the device {when} ({code}): no CUDA graph can hold them. "
    copied = advice_on_inputs(case)
    return first + (advice_on_values(case) or (copied and f"{copied} "))


def _waits(case: Case) -> dict[int, float]:
    """Return how often hosts of ranks wait for their devices, without a rank that saves for all in few iterations.

    Such a rank is late.
    """
    waits = waits_by_rank(case, usually=True)
    return {r: n for r, n in waits.items() if not (waits_more(waits, r) and copies_data(case, r, usually=True))}


def _code_of_waits(case: Case) -> str:
    """Return the calls and code by which hosts wait for their devices, of the rank that waits most if far more."""
    waits = _waits(case)
    most = max(waits, key=lambda rank: waits[rank], default=None)
    return code_that_waits(case, waits if most is None or not waits_more(waits, most) else [most], usually=True)


def _single_gaps(case: Case) -> float:
    """Return the share of the time before launches that is in one idle time of each iteration; 0 without these."""
    if not case.analysis.window.iterations:
        return 0.0
    usually = (
        case.usual_starved()
        .group_by("device", maintain_order=True)
        .agg(single=usual(pl.col("pause")), launching=usual(pl.col("launching")))
    )
    return float(usually.select(pl.col("single").sum() / pl.col("launching").sum().clip(lower_bound=1)).item() or 0)

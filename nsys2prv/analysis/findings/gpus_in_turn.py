"""GPUs of one process that take turns: each waits for what another one computes."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.devices.gpus_in_turn import WaitsForGpus, waits_for_gpus
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import TAKES_TURNS
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.model.units import text_ms

_TWO_WAYS = Words(
    general="Cut the batch into parts, so that one GPU works on a part while another one works on the next (a "
    "pipeline), or give each GPU a process with the whole model and a share of the batch.",
    pytorch="Cut the batch into microbatches, so that one GPU works on one while another GPU works on the next "
    "(torch.distributed.pipelining), or give each GPU a process with the whole model and a share of the batch "
    "(DistributedDataParallel, or FSDP where memory is short).",
    jax="Shard arrays over all GPUs (jax.sharding, jax.jit) in place of layers on one GPU each, or cut the batch into "
    "microbatches.",
    cuda="Cut the work into parts, so that one GPU works on a part while another one works on the next, or give each "
    "GPU a share of the data.",
)


def gpus_in_turn(case: Case) -> Iterator[Finding]:
    """Yield the rank whose GPUs wait longest for each other: of those that wait, by the one that waits least.

    A GPU hardly waits if it does so for less than TAKES_TURNS of the longest wait of its rank.
    """
    waits = {rank: _in_turn(found) for rank, found in waits_for_gpus(case).items()}
    waits = {rank: own for rank, own in waits.items() if len(own) > 1}
    if not waits:
        return
    rank = max(waits, key=lambda one: (min(waits[one].values()), -one))
    gpus = waits[rank]
    cost = min(gpus.values())
    several = len(waits_for_gpus(case)[rank].by_device)
    count = f"The {len(gpus)}" if len(gpus) == several else f"{len(gpus)} of the {several}"
    yield Finding(
        "gpus-in-turn",
        f"{count} GPUs of rank {rank} take turns: each has work, and waits {text_ms(cost)} {case.unit} "
        "for what another one computes",
        cost,
        _TWO_WAYS.of(case.framework),
        ranks=(rank,),
        iterations=case.iterations,
        evidence={
            "gpus": [case.run.devices[device].gpu for device in gpus],
            "waiting_ns": [round(ns) for ns in gpus.values()],
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show idle-causes,idle",
        cfg="analysis/idle_causes",
        at_ns=waits_for_gpus(case)[rank].at,
    )


def _in_turn(found: WaitsForGpus) -> dict[int, float]:
    """Return the devices that wait, and how long (ns of an iteration)."""
    longest = max(found.by_device.values())
    return {device: ns for device, ns in found.by_device.items() if ns > 0 and ns >= TAKES_TURNS.value * longest}

"""Host synchronization in the iteration: the host waits until the device is idle, and only then launches on."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.devices.gpus_in_turn import hosts_wait_for_one_gpu
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.hosts.copied_inputs import advice_on_inputs, common_inputs
from nsys2prv.analysis.facts.hosts.graphs_in_loop import advice_on_graphs, graphs_meanwhile
from nsys2prv.analysis.facts.hosts.host_compute import computes_between_copies
from nsys2prv.analysis.facts.starved import longest_at
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.graph.polling import QUERIES
from nsys2prv.model.units import text_ms

_RUN_AHEAD = Words(
    general="Let the host run ahead: read results and flags some iterations later, copy asynchronously from pinned "
    "memory, ",
    pytorch="Let the host run ahead: read losses and flags some iterations later, copy asynchronously from pinned "
    "memory, ",
    jax="Let the host run ahead, as JAX does not wait for what it dispatches: read results some iterations later "
    "(float(x), np.asarray(x) and jax.block_until_ready wait), ",
    cuda="Let the host run ahead: read results some iterations later, copy by cudaMemcpyAsync from pinned memory, ",
)
_WAIT = Words(
    general="and synchronize with events and streams rather than with the device.",
    jax="and put steps whose results are not needed at once into lax.scan or lax.fori_loop.",
)
_COMPUTE_THERE = (
    "The host waits for a copy from the device, works, and copies data to it. What it computes with the copied data "
    "the device can compute without that wait; the next input can be ready before (a thread, pinned memory, a stream "
    "of its own)."
)
_ALL_FIRST = (
    "The host waits for one GPU of its process while another one has no work: launch on all of them first, then wait "
    "for each. "
)
# The host needs no answer to launch on: the device keeps the order of its streams.
_DO_NOT_POLL = (
    "and let a stream wait for an event (cudaStreamWaitEvent) rather than the host poll until it has happened."
)


def host_synchronization(case: Case) -> Iterator[Finding]:
    """Yield the time in which devices wait for launches after the host had waited for them."""
    cost, mean = case.idle("synchronized")
    if not cost:
        return
    values = case.kept_calls(case.launchers.value_waits)
    calls = pl.concat([case.kept_calls(case.device_waits), values])
    by_name = calls.group_by(pl.col("name").cast(pl.String)).agg(instances=pl.len(), ns=pl.col("ns").sum())
    name, instances, _ = by_name.sort("ns", "name", descending=[True, False]).row(0)
    by_polling = name in QUERIES
    by_value = values["name"].cast(pl.String).is_in([name]).any()
    graphs = advice_on_graphs(case)
    all_first = _ALL_FIRST if hosts_wait_for_one_gpu(case) else ""
    meanwhile = graphs_meanwhile(case, mean) if graphs else ""
    call = f"{name} (polling)" if by_polling else f"Waiting for values (in `{name}`)" if by_value else name
    # Waits for values have advice of their own.
    copied = "" if by_polling or by_value else advice_on_inputs(case)
    what = _COMPUTE_THERE if computes_between_copies(case) else copied or _run_ahead(case, by_polling)
    advice = graphs + all_first + what
    yield Finding(
        "host-synchronization",
        f"{call} empties the device: {text_ms(cost)} {case.unit} until new work is launched{meanwhile}",
        cost,
        advice,
        iterations=case.iterations,
        evidence={"synchronization": name, "calls": instances, "idle_after_ns": round(mean)},
        command="nsys2prv analyze RUN --show idle,idle-causes,api",
        cfg="analysis/host_synchronization",
        at_ns=longest_at(case.starved, "synchronized"),
        common=common_inputs(case, advice),
    )


def _run_ahead(case: Case, by_polling: bool) -> str:
    return _RUN_AHEAD.of(case.framework) + (_DO_NOT_POLL if by_polling else _WAIT.of(case.framework))

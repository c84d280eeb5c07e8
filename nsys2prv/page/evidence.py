"""The evidence of findings in words: JSON names that do not say what they are of have others on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nsys2prv.model.units import FRACTION, unit_of, words_of

# By the name in JSON. All others are told by their own words.
WORDS = {
    "also": "the rule that tells it, too",
    "best_gb_s": "best bandwidth",
    "bytes_a_copy": "size of a copy",
    "call_p50_ns": "a launching call (median)",
    "calls_ns": "time in the call",
    "compute_longer_ns": "computes longer than the others",
    "computing_ns": "GPUs compute",
    "delay_ns": "delays of the window together",
    "excess_ns": "longer than the others",
    "factor": "times as long as on its peers",
    "filled": "part of the memory that is full",
    "gain_of_equal_shares_ns": "gain of equal shares (imbalance=0)",
    "gain_without_delays_ns": "gain without unusual delays (delay=0)",
    "gain_without_launch_cost_ns": "gain without the cost of launches (launch=0)",
    "gain_without_transfers_ns": "gain without transfers (transfer=0)",
    "gap_of_kernel_ns": "from one launch to the next",
    "host_busy": "part of the time in which hosts work",
    "host_busy_longer_ns": "its host works longer than the others",
    "host_ns": "work of the host",
    "hosts_wait_ns": "hosts wait for the device",
    "idle_after_ns": "the device idles after it",
    "in_iterations": "iterations with this cause",
    "its_device_starved_ns": "its device has no launched work",
    "kernel_p50_ns": "a kernel (median)",
    "kernels_on_a_device": "kernels on a device, an iteration",
    "launching_on_critical_path_ns": "launching on the critical path",
    "longer_than_mean_ns": "longer than the mean of the ranks",
    "lost_ns": "lost to the other process",
    "manner": "how it differs from others",
    "occupancy": "occupancy",
    "of_two_lengths": "kernels of two lengths",
    "p90_by_p10": "longest by shortest (9th by 1st decile)",
    "products_ns": "matrix products",
    "saved_ns": "can be saved",
    "scores_ns": "kernels on attention scores",
    "share_of_their_time": "part of the kernels' time",
    "slice_ns": "time slice of a process",
    "starved_ns": "the device has no launched work",
    "timed_ns": "time of trying out kernels",
    "unused_ns": "unused part of the device, as time",
    "usual_ns": "usual time",
    "waiting_hosts_wait_ns": "hosts of the waiting ranks wait, too",
    "waiting_share": "part of the time in which ranks wait",
}
# Parts of 1 whose names do not end as such.
_PARTS = ("filled", "host_busy", "occupancy", "share_of_their_time")
# Names of evidence that is called by its unit alone.
_NOUNS = {"GB/s": "bandwidth", "MB": "size"}


def evidence_pair(key: str, value: Any) -> tuple[str, str]:
    """Return name and value of a piece of evidence as texts."""
    unit = FRACTION if key in _PARTS else unit_of(key)
    words = WORDS.get(key) or key.replace("_", " ")
    if isinstance(value, Mapping):
        return words, "; ".join(f"{name}: {text}" for name, text in value.items())
    if isinstance(value, list | tuple):
        return words, ", ".join(map(_item, value))
    if unit is None or not unit.sign:
        return words, str(value)
    return WORDS.get(key) or words_of(key) or _NOUNS[unit.sign], f"{unit.text(value)} {unit.sign}"


def _item(value: Any) -> str:
    """Return an item of a list as text. A function that samples show is a list itself: name, module, share."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        name, module, share = value
        return f"{name} ({module}) {FRACTION.text(share)} %"
    return str(value)

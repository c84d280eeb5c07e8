"""Waits of hosts for copies to their devices: of each sample or value by itself, from pageable memory."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.common_advice import CommonAdvice, parts_on
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.hosts.launcher_waits import waits_of_launchers
from nsys2prv.analysis.facts.thresholds import MOST_WAITS
from nsys2prv.analysis.frames import COPY, TO_DEVICE
from nsys2prv.analysis.text_columns import text_contains

_JOIN = Words(
    general="Most waits are for copies to the device, one by one: join their data on the host, and copy it once, from "
    "pinned memory.",
    pytorch="Most waits are for copies to the device, one by one (`.to(device)`, `torch.tensor` of a list): join their "
    "data on the host (torch.stack, a DataLoader with pin_memory=True), and copy it once with non_blocking=True.",
    jax="Most waits are for copies to the device, one by one: join their data in one NumPy array, and copy that.",
)


@once
def advice_on_inputs(case: Case) -> str:
    """Return advice if most waits of launching threads in the window come right after a copy to the device; else "".

    A copy counts for the first wait after it, if the thread launches nothing between.
    """
    launched = case.run.work.select(
        "launched",
        row="caller_row",
        copies_in=(pl.col("kind") == COPY) & (pl.col("name") == TO_DEVICE) & text_contains("memory", "Pageable"),
    )
    launched = launched.drop_nulls(["launched", "row"]).sort("launched")
    waits = case.kept_calls(waits_of_launchers(case)).sort("start")
    known = waits.join_asof(launched, left_on="start", right_on="launched", by="row", check_sortedness=False)
    copies = known.filter("copies_in").select("row", "launched").n_unique()
    return _JOIN.of(case.framework) if copies and copies >= MOST_WAITS.value * waits.height else ""


def common_inputs(case: Case, advice: str) -> tuple[CommonAdvice, ...]:
    """Return what an advice has of advice_on_inputs, which launches and synchronization share."""
    return parts_on("inputs", advice_on_inputs(case), "Copy inputs to the device at once, as said above.", advice)

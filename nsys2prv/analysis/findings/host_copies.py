"""Copies between host and device beside which nothing else runs: findings `pageable-copies`, `exposed-copies`."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.devices.staged_copies import STAGED
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.hosts.pinned_memory import PIN
from nsys2prv.analysis.facts.hosts.round_trips import advice_on_round_trips
from nsys2prv.analysis.facts.thresholds import ATTAINABLE, PINNED_SAVED
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.analysis.frames import COPY, MPI, NCCL, TO_DEVICE, TO_HOST
from nsys2prv.analysis.interval_frames import at_longest, covered_by, whole_with_ns
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans, difference
from nsys2prv.model.units import text_ms

_PAGEABLE = text_contains("memory", "Pageable").fill_null(False)
_WITH_HOST = pl.col("name").is_in([TO_DEVICE, TO_HOST]) & ~STAGED

KEEP_THERE = Words(
    general="Keep on the device what is needed again (recompute rather than offload). ",
    cuda="Keep on the device what is needed again. ",
)
BESIDE_KERNELS = Words(
    general="Copy on another stream while kernels run, fetch before use, and send fewer bytes.",
    cuda="Copy by cudaMemcpyAsync on another stream while kernels run, and send fewer bytes.",
)
# The parts that can be saved, in words: they are experience, not measured in the run.
_PARTS = {PINNED_SAVED.value: "two thirds", ATTAINABLE.value: "half"}
AWARE_MPI = " With a CUDA-aware MPI messages need no copy."


def host_copies(case: Case) -> Iterator[Finding]:
    """Yield the time of copies of pageable memory, which the driver copies twice, and of others, as of offloading."""
    copies = case.run.work.filter((pl.col("kind") == COPY) & (_PAGEABLE | _WITH_HOST))
    if copies.is_empty():
        return
    other = case.run.work.filter(pl.col("kind").is_in([*USEFUL_KINDS, NCCL]))
    busy = covered_by(axis_over(case.analysis.window.spans, len(case.run.devices)), other, "device")
    told = False
    for chosen, name, title, saved, keep, advice in (
        (
            _PAGEABLE,
            "pageable-copies",
            "Copies of pageable memory",
            PINNED_SAVED.value,
            "",
            PIN.of(case.framework),
        ),
        (
            _WITH_HOST & ~_PAGEABLE,
            "exposed-copies",
            "Copies between host and device",
            ATTAINABLE.value,
            KEEP_THERE.of(case.framework),
            f"{BESIDE_KERNELS.of(case.framework)}{AWARE_MPI * (case.run.calls['kind'] == MPI).any()}",
        ),
    ):
        own = whole_with_ns(copies.filter(chosen), case.analysis.window.spans)
        if lost := _exposed(case, own, busy):
            # Told once, in the first of these findings.
            returning, told = "" if told else advice_on_round_trips(case), True
            # Nothing is needed again of what only goes to the host, as a checkpoint.
            first = returning or (keep if (own["name"] == TO_DEVICE).any() else "")
            yield Finding(
                name,
                f"{title} run alone {text_ms(lost)} {case.unit}; about {_PARTS[saved]} ({text_ms(saved * lost)}) can "
                "usually be saved",
                saved * lost,
                f"{first}{advice}",
                ranks=named_ranks(case.run.rank(task) for task in own["task"].unique()),
                evidence={"exposed_copies_ns": round(lost), **_amounts(case, chosen)},
                command="nsys2prv analyze RUN --show memory-kinds",
                cfg="analysis/memory_bandwidth",
                at_ns=int(own.select(at_longest("ns")).item()),
            )


def _exposed(case: Case, copies: pl.DataFrame, busy: Spans) -> float:
    """Return the time (ns of an iteration) of copies, in WORK, outside `busy`, on the device with most of it."""
    axis = axis_over(case.analysis.window.spans, len(case.run.devices))
    copying = covered_by(axis, copies, "device", case.analysis.window.spans)
    return int(axis.sums(difference(copying, busy)).max(initial=0)) / case.step_count


def _amounts(case: Case, chosen: pl.Expr) -> dict[str, object]:
    """Return bytes (of a device in an iteration, the mean), GB/s and kinds of memory of copies."""
    kinds = case.analysis.memory_kinds.filter(pl.col("rank").is_null() & chosen)
    size, time = int(kinds["bytes"].sum()), int(kinds["total_ns"].sum())
    moved = round(size / case.step_count / max(len(case.run.devices), 1))
    return {"bytes": moved, "gb_s": round(size / time, 3) if time else None, "kinds": kinds["memory"].to_list()}

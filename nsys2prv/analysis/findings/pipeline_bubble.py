"""Pipeline bubble: stages wait for messages of other stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.ranks.bubble import bubble
from nsys2prv.analysis.facts.thresholds import HOSTS_EMPTY, OF_SCHEDULE
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.interval_frames import at_longest
from nsys2prv.model.units import text_ms

# What shortens a bubble: another schedule, or, of a bubble far beyond what its schedule needs, what holds stages up.
SCHEDULE = "Use more microbatches, an interleaved or zero-bubble schedule, or fewer stages, each with the same work."
NEEDS_LESS = "The schedule needs far less, and more microbatches gain little: "
HOSTS = "stages stand still mainly because hosts launch late. Mend that first, also by fewer and larger microbatches."
STAGES = (
    "give each stage the same work, and let it send and receive while it computes (isend, irecv, batch_isend_irecv)."
)


def pipeline_bubble(case: Case) -> Iterator[Finding]:
    """Yield the bubble."""
    cost = bubble(case)
    if not cost:
        return
    messages = case.analysis.explanation.exposed.filter(
        pl.col("kind") == NCCL, pl.col("operation").str.contains("Send|Recv")
    )
    ranks = set(messages["rank"])
    known = _worst(case.analysis.explanation.stages.drop_nulls("ideal"))
    count = known["stages"] if known else len(ranks)
    beside = " (bubble)"
    if known:
        parts = round(known["microbatches"])
        least = (
            f"with {parts} microbatch{'es' * (parts != 1)} on {count} stages {100 * known['ideal']:.0f} % always are"
        )
        beside = f": they are empty {100 * known['bubble']:.0f} % of the pipeline's time; {least}"
    yield Finding(
        "pipeline-bubble",
        f"Stages wait for each other's messages {text_ms(cost)} {case.unit}{beside}",
        cost,
        _advice(case, known),
        ranks=named_ranks(ranks),
        iterations=case.iterations,
        evidence={
            "exposed_waiting_ns": round(cost),
            "waiting_share": round(cost / case.iteration_ns, 4),
            "bubble": round(known["bubble"], 4) if known else None,
            "ideal_bubble": round(known["ideal"], 4) if known else None,
            "stages": count,
            "microbatches": known["microbatches"] if known else None,
        },
        confidence="high" if known else "medium",
        command="nsys2prv analyze RUN --show pipeline,causes",
        cfg="views/nccl",
        at_ns=messages.select(at_longest("exposed_waiting_ns", "waits_at")).item(),
    )


def _advice(case: Case, known: dict[str, Any] | None) -> str:
    """Return what shortens a bubble. `known`: the pipeline with the largest one, if its ideal bubble is known."""
    if known is None or known["ideal"] >= OF_SCHEDULE.value * known["bubble"]:
        return SCHEDULE
    starved = case.idle("launching").mean_ns
    return NEEDS_LESS + (HOSTS if starved >= HOSTS_EMPTY.value * known["bubble"] * case.iteration_ns else STAGES)


def _worst(stages: pl.DataFrame) -> dict[str, Any] | None:
    """Return the pipeline with the largest bubble, of its stages (STAGE) the mean, or None without any."""
    pipelines = stages.group_by("pipeline").agg(
        pl.col("bubble").mean(), pl.col("ideal", "microbatches").first(), stages=pl.len()
    )
    by_bubble = pipelines.sort("bubble", "pipeline", descending=[True, False])
    return None if by_bubble.is_empty() else by_bubble.row(0, named=True)

"""Pipeline bubble: stages wait for messages of other stages."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.lateness import bubble
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.phases import main_ranges, phase_of


def pipeline_bubble(case: Case) -> Iterator[Finding]:
    """Yield the bubble, with the ideal one where ranges name the forward passes of microbatches."""
    cost = bubble(case)
    if not cost:
        return
    messages = case.found.explanation.exposed.filter(
        pl.col("kind") == NCCL, pl.col("operation").str.contains("Send|Recv")
    )
    ranks = sorted(messages["rank"].unique().to_list())
    microbatches = _microbatches(case)
    ideal = (len(ranks) - 1) / (microbatches + len(ranks) - 1) if microbatches > 1 else None
    beside = "" if ideal is None else f"; {len(ranks)} stages, {microbatches} microbatches: ideal {100 * ideal:.0f} %"
    yield Finding(
        "pipeline-bubble",
        f"Stages wait for each other's messages {text_ms(cost)} {case.unit} (bubble){beside}",
        cost,
        "Use more microbatches, an interleaved or zero-bubble schedule, or fewer stages, each with the same work.",
        ranks=tuple(ranks)[:8],
        iterations=case.iterations,
        evidence={
            "exposed_waiting_ns": round(cost),
            "bubble": round(cost / case.iteration_ns, 4),
            "ideal_bubble": None if ideal is None else round(ideal, 4),
            "stages": len(ranks),
            "microbatches": microbatches or None,
        },
        confidence="high" if ideal is not None else "medium",
        command="nsys2prv analyze RUN --show waiting,causes",
        cfg="views/nccl",
        at_ns=messages.sort("exposed_waiting_ns")["waits_at"][-1],
    )


def _microbatches(case: Case) -> int:
    """Return the ranges of forward passes by rank and iteration; 0 if they are not a whole number."""
    rows = case.found.iterations
    forward = main_ranges(case.run).filter((phase_of(pl.col("text")) == "forward").fill_null(False))
    if rows.is_empty() or forward.is_empty():
        return 0
    own = forward.group_by("task").len()["len"]
    each = own / (rows.height / rows["rank"].n_unique())
    return int(each[0]) if own.n_unique() == 1 and float(each[0]).is_integer() else 0

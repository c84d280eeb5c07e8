"""Host functions in streams: launched work waits until the host has run what the program put between."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.thresholds import RECURS
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.analysis.frames import COPY
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.model.units import text_ms

# Calls that put a host function in a stream. Work behind it waits until it has returned (CUDA runtime API,
# cudaLaunchHostFunc).
PUTS_HOST_FUNCTION = r"^cu(?:da)?(?:LaunchHostFunc|StreamAddCallback)"
_SHORT = (
    "Keep host functions short: let them hand work to another thread, or copy results and let a thread wait for an "
    "event."
)
_OWN_STREAM = "Put them on a stream of their own that waits for the event, so that kernels go on beside them."
_IN_TURN = "Their stream has no kernels: use two buffers and streams in turn, so that no copy waits for the one before."


def host_functions(case: Case) -> Iterator[Finding]:
    """Yield the idle time with launched work that nothing explains, where streams run host functions meanwhile.

    Reports do not say when a host function runs. Ranks count that put one in a stream in half of the iterations or
    more, and of their devices the one that is idle for the shortest time.
    """
    chosen = (pl.col("kind") == "cuda") & text_contains("name", PUTS_HOST_FUNCTION)
    calls = case.kept_calls(case.run.calls.filter(chosen))
    by_task = calls.group_by("task").agg(count=pl.len()).filter(pl.col("count") >= RECURS.value * case.step_count)
    ranks = [case.run.rank(task) for task in by_task["task"]]
    whole = case.analysis.explanation.idle.filter(pl.col("span").is_null(), pl.col("rank").is_in(ranks))
    cost = float(whole["unexplained_ns"].min() or 0) / case.step_count  # type: ignore[arg-type]
    if not cost:
        return
    name = calls["name"].cast(pl.String).mode().sort()[0]
    yield Finding(
        "host-functions",
        f"Streams run host functions ({name}), and the work launched behind them waits {text_ms(cost)} {case.unit}",
        cost,
        f"{_SHORT} {_IN_TURN if _beside_copies_alone(case, calls) else _OWN_STREAM}",
        ranks=named_ranks(ranks),
        iterations=case.iterations,
        evidence={"call": name, "calls": round(int(by_task["count"].sum()) / case.step_count / by_task.height, 1)},
        confidence="medium",
        command="nsys2prv analyze RUN --show idle-causes,api",
        cfg="analysis/idle_causes",
        at_ns=int(calls["start"][0]),
    )


def _beside_copies_alone(case: Case, calls: pl.DataFrame) -> bool:
    """Return True if streams of host functions have copies and no kernels. `calls` (CALLS) put these functions there.

    Reports do not name the stream. That of what a thread launched last before the call tells, as a function follows it.
    """
    launched = case.run.work.select("launched", "kind", stream="row", row="caller_row").drop_nulls()
    known = calls.sort("start").join_asof(
        launched.sort("launched"), left_on="start", right_on="launched", by="row", check_sortedness=False
    )
    streams = known["stream"].drop_nulls().unique()
    beside = launched.filter(pl.col("stream").is_in(streams.implode()))
    return not beside.is_empty() and bool((beside["kind"] == COPY).all())

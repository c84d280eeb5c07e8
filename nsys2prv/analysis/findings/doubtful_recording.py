"""Everything that makes a recording doubtful: eight findings, on reports, clocks, partners and missing data.

`failed-calls`, `defective-reports`, `doubtful-clocks`, `unmatched-communication`, `unrecorded-probes`, `whole-graphs`,
`late-capture` and `missing-data`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from nsys2prv.analysis.communication.waiting import ALL_OPERATIONS
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import DEFECT_ROWS, LOW, MEDIUM, MOSTLY_UNMATCHED, UNMATCHED, WHOLE_GRAPHS
from nsys2prv.analysis.findings.finding import Finding, FindingSeverity, named_ranks
from nsys2prv.analysis.frames import COPY, GRAPH, MPI
from nsys2prv.analysis.interval_frames import whole_with_ns
from nsys2prv.analysis.iterations.window import recordings
from nsys2prv.analysis.recording.missing import GRAPH_TRACE, has_lost_work
from nsys2prv.families.mpi.mpi import FAMILY as MPI_FAMILY
from nsys2prv.families.nccl.nccl import FAMILY as NCCL_FAMILY
from nsys2prv.model.units import text_ms
from nsys2prv.run.defects import Defect
from nsys2prv.run.iterations.steady import begun_apart

ADVICE = "Record again with what is missing; until then trust no figure that the defect touches."
# Who takes part in communication: NCCL's calls say it in the payloads of their ranges, which exports leave out else.
PAYLOADS = (
    "Export the reports with --include-json true --include-blobs true, for they lack what NCCL calls say of their "
    "communicators. Else give the reports of all ranks, recorded with --trace=cuda,nvtx."
)
ALL_RANKS = (
    "Give the reports of all ranks, recorded with --trace=cuda,nvtx (and mpi), and export them with "
    "--include-json true --include-blobs true."
)
SOME = (
    "Few of the rows, so that figures change little. Work that is queued when recording begins "
    "has no call: synchronize before that ({by})."
)
SYNCHRONIZE = Words(
    general="cudaDeviceSynchronize",
    pytorch="torch.cuda.synchronize()",
    jax="jax.block_until_ready",
    cupy="cupy.cuda.Device().synchronize(), numba.cuda.synchronize()",
)
FEW = "Nothing to do: less than 0.1 % of the rows, which hardly changes a figure."

FAILED = (
    "Mend the program first, and check what each call returns: look up the error (cudaGetErrorString). Work that "
    "failed takes no time here."
)

# Calls that receive a message, and those that must have found it before.
MATCHED_RECEIVES, MATCHED_PROBES = ("MPI_Mrecv", "MPI_Imrecv"), ("MPI_Mprobe", "MPI_Improbe")
ADVICE_PROBES = (
    "nsys may record no MPI_Mprobe and MPI_Improbe: record with an NVTX range around them, or receive by MPI_Recv "
    "(mpi4py: comm.Recv, or mpi4py.rc.recv_mprobe = False before MPI is imported)."
)


def doubtful_recording(case: Case) -> Iterator[Finding]:
    """Yield defects, doubtful clocks, communication without its other ranks, whole graphs, late and missing data."""
    if failed := tuple(defect for defect in case.run.defects if defect.of_program):
        yield _of_defects(case, "failed-calls", "CUDA calls of the program failed", failed, FAILED)
    if wrong := tuple(defect for defect in case.run.defects if not defect.of_program):
        yield _of_defects(case, "defective-reports", "Reports lack data or hold it wrongly", wrong)
    if clocks := case.run.clocks.warnings:
        yield Finding(
            "doubtful-clocks",
            f"Clocks of the reports may be wrong: {clocks[0]}",
            0.0,
            "Compare methods with nsys2prv align, and record with NCCL or MPI calls traced on all ranks.",
            evidence={"warnings": list(clocks)},
            command="nsys2prv align RUN",
            severity="medium",
        )
    yield from _unmatched(case)
    yield from _unrecorded_probes(case)
    yield from _whole_graphs(case)
    yield from _late_capture(case)
    if case.analysis.missing:
        what, how = next(iter(case.analysis.missing.items()))
        lost, others = has_lost_work(case.run), len(case.analysis.missing) - 1
        more = f" and {others} more (--show missing)" if others else ""
        yield Finding(
            "missing-data",
            f"Not recorded: {what}" + (", of a program that calls CUDA" if lost else "") + more,
            0.0,
            f"Record with nsys profile {how}.",
            evidence={"missing": {lacking: str(recorded) for lacking, recorded in case.analysis.missing.items()}},
            command=f"nsys profile {how.option} ...",
            severity="high" if lost else "low",
        )


def _unmatched(case: Case) -> Iterator[Finding]:
    """Yield communication of several ranks of which the reports do not show who takes part."""
    share, own = case.unmatched, case.analysis.explanation.communication.filter(pl.col("operation") == ALL_OPERATIONS)
    if share < UNMATCHED.value:
        return
    # The GPUs of a rank communicate at one time.
    communicating = max(own.height, len(case.run.devices), 1)
    of_window = float(own["unmatched_ns"].sum()) / communicating / max(case.analysis.window.spans.total(), 1)
    severity: FindingSeverity = "high" if share >= MOSTLY_UNMATCHED.value else "medium"
    by_operation = case.analysis.explanation.communication.filter(pl.col("operation") != ALL_OPERATIONS)
    unmatched = by_operation.sort("unmatched_ns", "operation", descending=[True, False])
    # NCCL kernels have a communicator by their payload, or where order tells it.
    anonymous = int(unmatched.filter(pl.col("communicator").is_null())["unmatched_ns"].sum())
    yield Finding(
        "unmatched-communication",
        f"{100 * share:.0f} % of the time in communication, mainly {unmatched['operation'][0]}, has no partner in the "
        "reports: waiting in it counts as transfer, and predictions are doubtful",
        0.0,
        PAYLOADS if 2 * anonymous > int(unmatched["unmatched_ns"].sum()) else ALL_RANKS,
        ranks=named_ranks(own.filter(pl.col("unmatched_ns") > 0)["rank"]),
        evidence={"communication_ns": own["ns"].sum(), "unmatched_ns": own["unmatched_ns"].sum()},
        command="nsys2prv analyze RUN --show waiting",
        # Of little communication hardly a figure depends.
        severity=severity if of_window >= MEDIUM.value else "low",
    )


def _unrecorded_probes(case: Case) -> Iterator[Finding]:
    """Yield ranks that receive what a probe has found, where no report holds the probes, in which they wait."""
    calls = case.run.calls.filter(pl.col("kind") == MPI)
    name = calls["name"].cast(pl.String)
    receives = case.kept_calls(calls.filter(name.is_in(MATCHED_RECEIVES)))
    if receives.is_empty() or name.is_in(MATCHED_PROBES).any():
        return
    ranks = receives["task"].replace_strict(case.run.ranks, return_dtype=pl.Int64)
    yield Finding(
        "unrecorded-probes",
        "Waiting for messages in MPI_Mprobe was not recorded, and counts as the host's work: efficiency of MPI is at "
        "most what it says",
        0.0,
        ADVICE_PROBES,
        ranks=named_ranks(ranks),
        evidence={"matched_receives": receives.height, "matched_probes": 0},
        cfg="analysis/host_mpi",
        severity="medium",
    )


def _late_capture(case: Case) -> Iterator[Finding]:
    """Yield ranks that begin to record later than others: iterations are left out, or waiting for them does not count.

    The window of a time that was chosen may have both.
    """
    late = [one for one in case.analysis.window.left_out if one.late]
    waited = _longest_unrecorded(case)
    if not late and (not waited or waited < LOW.value * case.analysis.window.spans.total()):
        return
    why, ranks = (late[0].why, [rank for one in late for rank in one.ranks]) if late else _begun_apart(case)
    left_out = f"findings leave out {text_ms(waited)} of waiting for ranks that did not record yet"
    yield Finding(
        "late-capture",
        f"Ranks do not begin to record together: {why}, and "
        + (f"{_counted(len(late))} left out" if late else left_out),
        0.0,
        "Start capture after a barrier: synchronize all ranks, then call cudaProfilerStart.",
        ranks=named_ranks(ranks),
        iterations=tuple(sorted({one.iteration for one in late})),
        evidence={"left_out": len(late), "unrecorded_waiting_ns": waited},
        command="nsys2prv inspect RUN",
        cfg="basics/window",
        severity="low",
    )


def _longest_unrecorded(case: Case) -> int:
    """Return how long the rank waits (ns of the window) that waits longest for ranks that do not record yet."""
    by_rank = case.exposed.group_by("rank").agg(pl.col("unrecorded_ns").sum())
    return round(float(by_rank["unrecorded_ns"].max() or 0))  # type: ignore[arg-type]


def _begun_apart(case: Case) -> tuple[str, Sequence[int]]:
    """Return in words which ranks began to record apart from others, and these."""
    times = {task: times for task, times in recordings(case.run).items() if task in case.run.rank_tasks}
    # In the window ranks wait from the first event of any of them on.
    begin = max(case.analysis.window.start, min(start for start, _ in times.values()))
    late = [task for task, (start, _) in times.items() if start > begin]
    ranks, why = begun_apart(set(times), late, times, case.run.ranks)
    return why, ranks


def _whole_graphs(case: Case) -> Iterator[Finding]:
    """Yield CUDA graphs that are recorded as one activity each, where they take much of the devices' time."""
    work = whole_with_ns(case.run.work.filter(pl.col("kind") != COPY), case.analysis.window.spans)
    graphs = work.filter(pl.col("kind") == GRAPH)
    ns, whole = int(graphs["ns"].sum()), int(work["ns"].sum())
    if not ns or ns < WHOLE_GRAPHS.value * whole:
        return
    # A single GPU has none to communicate with, unless its program calls NCCL or MPI.
    alone = max(len(case.run.devices), case.run.rank_count) == 1
    communicates = not alone or case.run.recorded_families & {MPI_FAMILY.name, NCCL_FAMILY.name}
    inside = "pauses and communication" if communicates else "pauses"
    yield Finding(
        "whole-graphs",
        f"CUDA graphs are recorded as a whole, {100 * ns / whole:.0f} % of the device time: efficiency counts "
        f"{inside} inside of them as useful",
        0.0,
        "Record a short part of the program again by node, which slows it down: then figures see what runs in graphs.",
        evidence={"graphs": graphs.height, "graphs_ns": ns, "device_ns": whole},
        command=f"nsys profile {GRAPH_TRACE} ...",
        severity="medium",
    )


def _counted(count: int) -> str:
    return "an iteration is" if count == 1 else f"{count} iterations are"


def _of_defects(case: Case, kind: str, title: str, defects: tuple[Defect, ...], advice: str = "") -> Finding:
    """Return one finding for some defects; the first that shows in figures is the worst.

    `advice`: instead of that on recordings.
    """
    shows = any(d.shows for d in defects)
    much = any(d.share >= DEFECT_ROWS.value for d in defects)
    worst = max(defects, key=lambda d: (d.shows, d.share >= DEFECT_ROWS.value))
    more = f" (and {len(defects) - 1} more)" if len(defects) > 1 else ""
    some = SOME.format(by=SYNCHRONIZE.of(case.framework))
    return Finding(
        kind,
        f"{title}{more}: {worst.sentence}",
        0.0,
        advice or (ADVICE if much else some if shows else FEW),
        evidence={"defects": [d.sentence for d in defects], "reports": sorted({r for d in defects for r in d.reports})},
        command="nsys2prv inspect RUN",
        severity="high" if much else "medium" if shows else "low",
    )

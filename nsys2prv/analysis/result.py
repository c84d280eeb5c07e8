"""Everything that one analysis finds, as tables, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis import delays as late
from nsys2prv.analysis import host, idle, kernels, launches, metrics, phases
from nsys2prv.analysis import iterations as by_iteration
from nsys2prv.analysis import overlap as communication
from nsys2prv.analysis.collectives import nccl_bandwidths
from nsys2prv.analysis.columns import column_spans
from nsys2prv.analysis.efficiency import Efficiency, NcclAs, efficiency, efficiency_by_occurrence
from nsys2prv.analysis.explanation import Explanation, explain
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import COPY, MPI, Run, cut_to, cut_with_ns, parts_by, whole_with_ns
from nsys2prv.analysis.located import locate, no_range
from nsys2prv.analysis.missing import missing_data
from nsys2prv.analysis.ncu.tables import NcuFigures, ncu_figures, with_figures
from nsys2prv.analysis.question import Question
from nsys2prv.analysis.ranges import range_sums, ranges_in
from nsys2prv.analysis.waiting import ALL_OPERATIONS
from nsys2prv.analysis.window import kept_steps
from nsys2prv.intervals.spans import Spans, Times
from nsys2prv.model.event_types import DEFAULT_DOMAIN
from nsys2prv.run.steady import Window


class Phase(NamedTuple):
    """Efficiency of an NVTX phase or an iteration; `occurrences` over all ranks."""

    name: str
    occurrences: int
    efficiency: Efficiency


class Analysis(NamedTuple):
    """The figures of a run. Times are ns of the trace.

    `window`: the time that figures cover. `overlap`: columns OVERLAP; `iterations`: ITERATION; `delays`: DELAY;
    `gaps`: GAPS.
    `launches`, `queues`: columns LAUNCH and QUEUE; `bandwidths`: BANDWIDTH; `memory_kinds`: as `memory`, by kinds too.
    `kernels` (by class and name), `classes` (by family), `memory` (by name), `api` (by kind and name): rank (null: all
    ranks), those columns, and SUMMARY. `ranges`: range, instances, host_ns, launched, device_ns. `missing`: what the
    reports lack -> what records it. `found_by`: the work by whose repetition iterations were found, None for ranges.
    `findings`: the worst first. `ncu`: figures of the files of Nsight Compute; None without such files. `main_ranges`:
    RANGES of the main threads.
    """

    question: Question
    run: Run
    main_ranges: pl.DataFrame
    window: Window
    efficiency: Efficiency
    host: host.HostEfficiency
    phases: tuple[Phase, ...]
    iteration_pattern: str | None
    iteration_efficiency: tuple[Phase, ...]
    iterations: pl.DataFrame
    ranks: by_iteration.Ranks | None
    delays: pl.DataFrame
    overlap: pl.DataFrame
    metrics: tuple[metrics.MetricFit, ...]
    kernels: pl.DataFrame
    classes: pl.DataFrame
    memory: pl.DataFrame
    api: pl.DataFrame
    ranges: pl.DataFrame
    nvtx: pl.DataFrame
    gaps: pl.DataFrame
    launches: pl.DataFrame
    queues: pl.DataFrame
    bandwidths: pl.DataFrame
    memory_kinds: pl.DataFrame
    explanation: Explanation
    missing: Mapping[str, str] = {}
    ncu: NcuFigures | None = None
    found_by: str | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def communication_factors(self) -> dict[str, float]:
        """Return serialization and transfer, whose product is the communication efficiency; empty if NCCL is useful."""
        factors = self.explanation.factors
        return factors._asdict() if factors and self.question.nccl == "communication" else {}

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        every = self.overlap.filter(pl.col("operation") == ALL_OPERATIONS).drop("communicator", "operation")
        return {
            "findings": [one.as_json() for one in self.findings],
            "window": _window_values(self.window),
            "nccl": self.question.nccl,
            "devices": _devices(self.efficiency),
            "efficiency": {**_fractions(self.efficiency), **self.communication_factors},
            "host": {
                "ranks": [t._asdict() for t in self.host.ranks],
                **{k: v for k, v in self.host._asdict().items() if k != "ranks"},
            },
            "overlap": every.to_dicts(),
            "overlap_by_operation": self.overlap.filter(pl.col("operation") != ALL_OPERATIONS).to_dicts(),
            "phases": [_phase(p) for p in self.phases],
            "iterations": {
                "pattern": self.iteration_pattern,
                "found_by": self.found_by,
                "efficiency": [_phase(p) for p in self.iteration_efficiency],
                "ranks": self.ranks._asdict() if self.ranks else None,
                "delays": self.delays.to_dicts(),
                "rows": _rows(self.iterations),
            },
            "metrics": [_fit(f, self.run) for f in self.metrics],
            "kernels": self.kernels.to_dicts(),
            "classes": self.classes.to_dicts(),
            "memory": self.memory.to_dicts(),
            "api": self.api.to_dicts(),
            "ranges": self.ranges.to_dicts(),
            "idle": self.gaps.to_dicts(),
            "memory_kinds": self.memory_kinds.to_dicts(),
            "launches": {"kernels": self.launches.to_dicts(), "queues": self.queues.to_dicts()},
            **self.explanation.as_json(self.run),
            "nccl_bandwidths": self.bandwidths.to_dicts(),
            "defects": [{**d._asdict(), "reports": list(d.reports)} for d in self.run.defects],
            "warnings": list(self.run.remarks),
            "details": list(self.run.details),
            "missing": [{"what": what, "record": advice} for what, advice in self.missing.items()],
            **({} if self.ncu is None else {"ncu": self.ncu.as_json()}),
        }


def find_out(run: Run, question: Question) -> Analysis:
    """Answer a question about a run. Raises UsageError for a range that no rank has."""
    main, pattern, steps, occurring, chosen, found_by = locate(run, question)
    window = chosen.spans
    named = tuple(_named_phase(run, cut_with_ns(run.work, window), main, n, question.nccl) for n in question.phases)
    per_iteration = _per_iteration(run, occurring, steps, pattern, question.nccl) if pattern else ()
    # The dependency graph takes most memory: beside it no copy of the run's work is held.
    del occurring
    explanation = explain(run, steps, main, chosen)
    work = cut_with_ns(run.work, window)
    table = (
        by_iteration.iterations(run, main, steps, chosen) if pattern else pl.DataFrame(schema=by_iteration.ITERATION)
    )
    ranks = [t.rank for t in run.tasks]
    copies = kernels.with_rank(whole_with_ns(run.work.filter(pl.col("kind") == COPY), window), ranks)
    fits = tuple(_metrics(run, work, window, steps, question.by))
    ranked = kernels.with_rank(work, ranks)
    profiled = ncu_figures(ranked, run, question.by, fits)
    return Analysis(
        question=question,
        run=run,
        main_ranges=main,
        window=chosen,
        efficiency=efficiency(work, run.devices, window, question.nccl),
        host=host.host_efficiency(run, window),
        phases=named,
        iteration_pattern=pattern,
        iteration_efficiency=per_iteration,
        iterations=table,
        ranks=by_iteration.compare_ranks(table.filter("steady")),
        delays=late.delays(run, main, steps.clear() if found_by else kept_steps(steps, chosen)),
        overlap=communication.overlap(run, work, window),
        metrics=fits,
        kernels=with_figures(_sums(ranked.filter(pl.col("kind") != COPY), ["class", "name"]), ranked, run, profiled),
        classes=_sums(ranked, ["family"]),
        memory=kernels.memory_sums(copies, ["name"]),
        memory_kinds=kernels.memory_sums(copies, ["name", "memory"]),
        launches=launches.launches(run, window),
        queues=launches.queues(run, window),
        bandwidths=nccl_bandwidths(run, window),
        api=_api_sums(run, chosen, ranks),
        ranges=range_sums(work, ranges_in(run, chosen, main, steps)),
        nvtx=_nvtx_sums(run, chosen, ranks),
        gaps=idle.gaps(run, main, work, window, question.gaps),
        explanation=explanation,
        missing=missing_data(run),
        ncu=profiled,
        found_by=found_by,
    )


def restricted(run: Run, low: int, high: int) -> Run:
    """Return the run within [low, high), with intervals cut at the borders.

    Its window is the time of the device activity left; without any, of MPI calls; else all of [low, high).
    """
    work, calls, others = (cut_to(frame, low, high) for frame in (run.work, run.calls, run.other_calls))
    active = work if work.height else calls.filter(pl.col("kind") == MPI)
    window = (int(active["start"].min()), int(active["end"].max())) if active.height else (low, high)  # type: ignore[arg-type]
    ranges = cut_to(run.ranges, low, high)
    return run._replace(work=work, calls=calls, other_calls=others, ranges=ranges, window=window, chosen=(low, high))


def _named_phase(run: Run, work: pl.DataFrame, main: pl.DataFrame, name: str, nccl: NcclAs) -> Phase:
    found = phases.occurrences(main, name)
    if found.is_empty():
        raise no_range("--phase", name, main)
    own = phases.projected(work, found)
    return Phase(name, found.height, efficiency(own, run.devices, phases.phase_window(own), nccl))


def _per_iteration(
    run: Run, occurring: pl.DataFrame, steps: pl.DataFrame, pattern: str, nccl: NcclAs
) -> tuple[Phase, ...]:
    counts = {(repeat, number): count for repeat, number, count in steps.group_by("repeat", "number").len().rows()}
    found = efficiency_by_occurrence(occurring, run.devices, nccl)
    return tuple(
        Phase(phases.named(pattern, number, repeat), counts[repeat, number], own)
        for (repeat, number), own in found.items()
    )


def _calls(calls: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Return the host calls of a window. For the device window return all calls, since they begin before it."""
    of_devices = window.name == "device" or (window.name == "steady" and not window.iterations)
    return calls if of_devices else cut_with_ns(calls, window.spans)


def _api_sums(run: Run, window: Window, ranks: Sequence[int]) -> pl.DataFrame:
    calls = pl.concat([_calls(c, window) for c in (run.calls, run.other_calls)])
    return _sums(kernels.with_rank(calls, ranks), ["kind", "name"])


def _nvtx_sums(run: Run, window: Window, ranks: Sequence[int]) -> pl.DataFrame:
    """Return sums of ranges by the names that `nsys stats` gives them: `DOMAIN:TEXT`, without a domain `:TEXT`."""
    sums = _sums(kernels.with_rank(_calls(run.ranges, window), ranks), ["domain", "text"])
    domain = pl.when(pl.col("domain") == DEFAULT_DOMAIN).then(pl.lit("")).otherwise("domain")
    tagged = sums.select("rank", pl.format("{}:{}", domain, "text").alias("name"), *kernels.SUMMARY)
    return tagged.sort("rank", "total_ns", "name", descending=[False, True, False], nulls_last=False)


def _sums(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return sums per rank, and over all ranks with `rank` null."""
    over_all, ranks = kernels.summary(frame, by), frame["rank"].unique()
    if len(ranks) == 1:
        # With one rank its sums are those over all ranks, and grouping millions of calls takes long.
        per_rank = over_all.select(pl.lit(ranks[0], pl.Int64).alias("rank"), pl.all())
    else:
        per_rank = kernels.summary(frame, ["rank", *by])
    return pl.concat([over_all.select(pl.lit(None, pl.Int64).alias("rank"), pl.all()), per_rank])


def _metrics(run: Run, work: pl.DataFrame, window: Spans, steps: pl.DataFrame, by: str) -> Iterator[metrics.MetricFit]:
    """Return the fits of each metric: over all GPUs if there are several, then of each GPU."""
    by_device = parts_by(work, "device")
    sums: dict[str, list[metrics.Sums]] = {}
    for sampled in run.samples:
        own = by_device.get(sampled.device, work.clear())
        begins = _device_begins(phases.projected(own, steps)) if steps.height else np.zeros(0, np.int64)
        borders = metrics.fold_borders(int(window.start[0]), int(window.end[-1]), begins)
        own_sums = sums.setdefault(sampled.metric, [])
        own_sums.append(metrics.sum_up(sampled, column_spans(own, by, window), window, borders))
    for own_sums in sums.values():
        together = [metrics.pooled(own_sums)] if len(own_sums) > 1 else []
        yield from filter(None, map(metrics.solve, [*together, *sorted(own_sums, key=lambda one: one.device or 0)]))


def _device_begins(launched: pl.DataFrame) -> Times:
    return launched.group_by("number", "repeat").agg(pl.col("start").min())["start"].sort().to_numpy()


def _window_values(window: Window) -> dict[str, Any]:
    return {
        "name": window.name,
        "start_ns": window.start,
        "end_ns": window.end,
        "spans": [[low, high] for low, high in zip(*(s.tolist() for s in window.spans), strict=True)],
        "iterations": [number for number, _ in window.iterations],
        "left_out": [
            {"iteration": one.iteration, "repeat": one.repeat, "ranks": list(one.ranks), "why": one.why}
            for one in window.left_out
        ],
    }


def _devices(found: Efficiency) -> list[dict[str, Any]]:
    return [
        {
            "host": t.device.host,
            "gpu": t.device.gpu,
            "rank": t.device.rank,
            "useful_ns": t.useful_ns,
            "busy_ns": t.busy_ns,
        }
        for t in found.devices
    ]


def _fractions(found: Efficiency) -> dict[str, float]:
    names = ("parallel", "load_balance", "communication", "orchestration")
    return {name: float(getattr(found, name)) for name in names}


def _rows(iterations: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows of ITERATION, with `repeat` if any number comes again."""
    again = (iterations["repeat"] > 0).any()
    return (iterations if again else iterations.drop("repeat")).to_dicts()


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "occurrences": phase.occurrences,
        "window_ns": phase.efficiency.window_ns,
        "devices": _devices(phase.efficiency),
        "efficiency": _fractions(phase.efficiency),
    }


def _fit(fit: metrics.MetricFit, run: Run) -> dict[str, Any]:
    device = run.devices[fit.device]._asdict() if fit.device is not None else dict.fromkeys(("host", "gpu", "rank"))
    return {
        "metric": fit.metric,
        **device,
        "samples": fit.samples,
        "period_ns": fit.period_ns,
        "r2": fit.r2,
        "r2_left_out": fit.r2_left_out,
        "classes": [{**m._asdict(), "classes": list(m.classes)} for m in fit.classes],
    }

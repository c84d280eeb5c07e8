"""Answer a question about a run: compute each figure of an analysis."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.communication.delays import delays
from nsys2prv.analysis.communication.nccl_bandwidths import nccl_bandwidths
from nsys2prv.analysis.communication.overlap import overlap
from nsys2prv.analysis.efficiency import NcclAs, Phase, efficiency, efficiency_by_occurrence, efficiency_by_span
from nsys2prv.analysis.explanation import explain
from nsys2prv.analysis.frames import COPY, Run
from nsys2prv.analysis.host import host_efficiency
from nsys2prv.analysis.idle.idle_gaps import longest_gaps
from nsys2prv.analysis.idle.launches import launches, queues
from nsys2prv.analysis.interval_frames import cut_with_ns, ns_inside, parts_by, whole_with_ns
from nsys2prv.analysis.iterations.iteration_lengths import last_by_ends, overlapping_iterations, whole_iterations
from nsys2prv.analysis.iterations.iteration_times import ITERATION, compare_ranks, iterations
from nsys2prv.analysis.iterations.located import locate, no_range
from nsys2prv.analysis.iterations.phases import named, occurrences, phase_window, projected
from nsys2prv.analysis.iterations.ranges_by_operation import range_sums, ranges_in
from nsys2prv.analysis.iterations.window import kept_steps
from nsys2prv.analysis.metrics.fit_columns import column_spans
from nsys2prv.analysis.metrics.metrics_by_class import MetricFit, Sums, fold_borders, pooled, solve, sum_up
from nsys2prv.analysis.ncu.tables import ncu_figures, with_figures
from nsys2prv.analysis.question import Question
from nsys2prv.analysis.recording.missing import missing_data
from nsys2prv.analysis.sums_by_name import SUMMARY, memory_sums, sums_by_rank
from nsys2prv.intervals.spans import Spans, Times
from nsys2prv.model.event_types import DEFAULT_DOMAIN
from nsys2prv.run.iterations.steady import Window


def analyze_run(run: Run, question: Question) -> Analysis:
    """Answer a question about a run. Raises UsageError for a range that no rank has."""
    main, pattern, steps, occurring, window, found_by = locate(run, question)
    spans = window.spans
    by_name = tuple(_named_phase(run, cut_with_ns(run.work, spans), main, n, question.nccl) for n in question.phases)
    table = iterations(run, main, steps, occurring, window) if pattern else pl.DataFrame(schema=ITERATION)
    overlapping = overlapping_iterations(table)
    per_iteration = _per_iteration(run, occurring, steps, pattern, overlapping, question.nccl) if pattern else ()
    # The dependency graph takes most memory: beside it no copy of the run's work is held.
    del occurring
    explanation = explain(run, main, steps, window, last_by_ends(table))
    work = cut_with_ns(run.work, spans)
    copies = whole_with_ns(run.work.filter(pl.col("kind") == COPY), spans).with_columns(rank=run.rank_of("task"))
    fits = tuple(_metric_fits(run, work, spans, steps, question.by))
    ranked = work.with_columns(rank=run.rank_of("task"))
    profiled = ncu_figures(ranked, run, question.by, fits)
    return Analysis(
        question=question,
        run=run,
        main_ranges=main,
        window=window,
        efficiency=efficiency(work, run.devices, spans, question.nccl),
        whole_efficiency=efficiency(run.work, run.devices, whole_iterations(table, window), question.nccl),
        host=host_efficiency(run, spans, explanation.device_waits),
        phases=by_name,
        iteration_pattern=pattern,
        iteration_efficiency=per_iteration,
        iterations=table,
        ranks=compare_ranks(table.filter("steady")),
        delays=delays(run, main, steps.clear() if found_by else kept_steps(steps, window)),
        overlap=overlap(run, work, spans),
        metrics=fits,
        kernels=with_figures(
            sums_by_rank(ranked.filter(pl.col("kind") != COPY), ["class", "name"]), ranked, run, profiled
        ),
        classes=sums_by_rank(ranked, ["family"]),
        memory=memory_sums(copies, ["name"]),
        memory_kinds=memory_sums(copies, ["name", "memory"]),
        launches=launches(run, spans),
        queues=queues(run, spans),
        bandwidths=nccl_bandwidths(run, spans),
        api=_api_sums(run, window),
        ranges=range_sums(work, ranges_in(run, main, steps, window)),
        nvtx=_nvtx_sums(run, window),
        gaps=longest_gaps(run, main, work, spans, question.gaps),
        explanation=explanation,
        missing=missing_data(run),
        ncu=profiled,
        found_by=found_by,
    )


def _named_phase(run: Run, work: pl.DataFrame, main: pl.DataFrame, name: str, nccl: NcclAs) -> Phase:
    found = occurrences(main, name)
    if found.is_empty():
        raise no_range("--phase", name, main)
    own = projected(work, found)
    return Phase(name, found.height, efficiency(own, run.devices, phase_window(own), nccl))


def _per_iteration(
    run: Run, occurring: pl.DataFrame, steps: pl.DataFrame, pattern: str, overlapping: pl.DataFrame | None, nccl: NcclAs
) -> tuple[Phase, ...]:
    counts = {(repeat, number): count for repeat, number, count in steps.group_by("repeat", "number").len().rows()}
    if overlapping is None:
        found = efficiency_by_occurrence(occurring, run.devices, nccl)
    else:
        found = efficiency_by_span(run.work, overlapping, run.devices, nccl)
    return tuple(
        Phase(named(pattern, number, repeat), counts[repeat, number], own) for (repeat, number), own in found.items()
    )


def _host_times(frame: pl.DataFrame, window: Window, *by: str) -> pl.DataFrame:
    """Return task, `by` and `ns` (the time in a window) of host calls or ranges that touch it.

    For a window of all device work these are all calls, whole, since they begin before it.
    """
    if window.of_all_device_work:
        return frame.select("task", *by, ns=pl.col("end") - pl.col("start"))
    return frame.select("task", *by, ns_inside(frame, window.spans)).filter(pl.col("ns") > 0)


def _api_sums(run: Run, window: Window) -> pl.DataFrame:
    calls = pl.concat([_host_times(c, window, "kind", "name") for c in (run.calls, run.other_calls)])
    return sums_by_rank(calls.with_columns(rank=run.rank_of("task")), ["kind", "name"])


def _nvtx_sums(run: Run, window: Window) -> pl.DataFrame:
    """Return sums of ranges by the names that `nsys stats` gives them: `DOMAIN:TEXT`, without a domain `:TEXT`."""
    ranges = _host_times(run.ranges, window, "domain", "text").with_columns(rank=run.rank_of("task"))
    sums = sums_by_rank(ranges, ["domain", "text"])
    domain = pl.when(pl.col("domain") == DEFAULT_DOMAIN).then(pl.lit("")).otherwise("domain")
    tagged = sums.select("rank", pl.format("{}:{}", domain, "text").alias("name"), *SUMMARY)
    return tagged.sort("rank", "total_ns", "name", descending=[False, True, False], nulls_last=False)


def _metric_fits(run: Run, work: pl.DataFrame, spans: Spans, steps: pl.DataFrame, by: str) -> Iterator[MetricFit]:
    """Return the fits of each metric: over all GPUs if there are several, then of each GPU."""
    by_device = parts_by(work, "device")
    sums: dict[str, list[Sums]] = {}
    for sampled in run.samples:
        own = by_device.get(sampled.device, work.clear())
        narrow = own.select("task", "start", "launched")
        begins = _device_begins(projected(narrow, steps)) if steps.height else np.zeros(0, np.int64)
        borders = fold_borders(int(spans.start[0]), int(spans.end[-1]), begins)
        own_sums = sums.setdefault(sampled.metric, [])
        own_sums.append(sum_up(sampled, column_spans(own, by, spans), spans, borders))
    for own_sums in sums.values():
        together = [pooled(own_sums)] if len(own_sums) > 1 else []
        yield from filter(None, map(solve, [*together, *sorted(own_sums, key=lambda one: one.device or 0)]))


def _device_begins(launched: pl.DataFrame) -> Times:
    return launched.group_by("number", "repeat").agg(pl.col("start").min())["start"].sort().to_numpy()

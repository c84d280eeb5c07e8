"""The record of everything that one analysis finds, as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import polars as pl

from nsys2prv.analysis.analysis_json import (
    device_values,
    efficiency_values,
    fit_values,
    fractions,
    iteration_rows,
    phase_values,
    window_values,
)
from nsys2prv.analysis.communication.waiting import ALL_OPERATIONS
from nsys2prv.analysis.efficiency import Efficiency, Phase
from nsys2prv.analysis.explanation import Explanation
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import Run, SampledFunctions
from nsys2prv.analysis.host import HostEfficiency
from nsys2prv.analysis.iterations.iteration_times import Ranks
from nsys2prv.analysis.metrics.metrics_by_class import MetricFit
from nsys2prv.analysis.ncu.tables import NcuFigures
from nsys2prv.analysis.question import Question
from nsys2prv.analysis.recording.missing import HowToRecord
from nsys2prv.run.iterations.steady import Window

# The window is not told apart from whole iterations if its device work fills this part of them or more.
IN_WINDOW = 0.9


class Analysis(NamedTuple):
    """The figures of a run in the window that the question asks for. Times are ns of the trace."""

    question: Question
    run: Run
    # RANGES of the main threads, of the whole run.
    main_ranges: pl.DataFrame
    # The time that the figures cover.
    window: Window
    efficiency: Efficiency
    # Of the iterations of the window with the time between them; without iterations that of the window.
    whole_efficiency: Efficiency
    host: HostEfficiency
    # Of the ranges that the question names.
    phases: tuple[Phase, ...]
    # The range of an iteration; None without iterations.
    iteration_pattern: str | None
    # Of each iteration, all ranks together.
    iteration_efficiency: tuple[Phase, ...]
    # ITERATION of each rank.
    iterations: pl.DataFrame
    # The ranks compared by their iterations.
    ranks: Ranks | None
    # DELAY, the longest first.
    delays: pl.DataFrame
    # OVERLAP.
    overlap: pl.DataFrame
    # Fits over all GPUs, if several, and of each.
    metrics: tuple[MetricFit, ...]
    # SUMMARY by rank (null: all ranks), class and name, with the figures of Nsight Compute if there are any.
    kernels: pl.DataFrame
    # SUMMARY by rank and family.
    classes: pl.DataFrame
    # SUMMARY and more of copies, by rank and name.
    memory: pl.DataFrame
    # SUMMARY by rank, kind and name.
    api: pl.DataFrame
    # RANGE_SUMS.
    ranges: pl.DataFrame
    # SUMMARY by rank and name, DOMAIN:TEXT.
    nvtx: pl.DataFrame
    # IDLE_GAPS.
    gaps: pl.DataFrame
    # LAUNCH.
    launches: pl.DataFrame
    # QUEUE.
    queues: pl.DataFrame
    # BANDWIDTH.
    bandwidths: pl.DataFrame
    # As `memory`, by kinds of memory, too.
    memory_kinds: pl.DataFrame
    # Waiting, critical path, causes of idle time and predictions.
    explanation: Explanation
    # What no report recorded -> how to record it.
    missing: Mapping[str, HowToRecord] = {}
    # Figures of the files of Nsight Compute; None without such files.
    ncu: NcuFigures | None = None
    # The work by whose repetition iterations were found; None for ranges.
    found_by: str | None = None
    # The worst first.
    findings: tuple[Finding, ...] = ()
    # Counts samples of hosts, once: to read samples takes long, and few ask for them.
    host_samples: Callable[[], SampledFunctions] = SampledFunctions

    @property
    def headline_efficiency(self) -> Efficiency:
        """Return the efficiency that says how much of their time devices use: of whole iterations.

        It is that of the window, which tables and cfgs have, where device work fills nearly all of the iterations.
        """
        return self.whole_efficiency if self.leaves_time_between else self.efficiency

    @property
    def leaves_time_between(self) -> bool:
        """Return True if much of the iterations is between their device work, and so outside of the window."""
        return self.efficiency.measured and self.efficiency.window_ns < IN_WINDOW * self.whole_efficiency.window_ns

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
            "window": window_values(self.window),
            "nccl": self.question.nccl,
            "devices": device_values(self.efficiency),
            "efficiency": {**fractions(self.efficiency), **self.communication_factors},
            "whole_iterations": efficiency_values(self.whole_efficiency) if self.window.iterations else None,
            "host": {
                "ranks": [t._asdict() for t in self.host.ranks],
                **{k: v for k, v in self.host._asdict().items() if k != "ranks"},
            },
            "overlap": every.to_dicts(),
            "overlap_by_operation": self.overlap.filter(pl.col("operation") != ALL_OPERATIONS).to_dicts(),
            "phases": [phase_values(p) for p in self.phases],
            "iterations": {
                "pattern": self.iteration_pattern,
                "found_by": self.found_by,
                "efficiency": [phase_values(p) for p in self.iteration_efficiency],
                "ranks": self.ranks._asdict() if self.ranks else None,
                "delays": self.delays.to_dicts(),
                "rows": iteration_rows(self.iterations),
            },
            "metrics": [fit_values(f, self.run) for f in self.metrics],
            "kernels": self.kernels.to_dicts(),
            "classes": self.classes.to_dicts(),
            "memory": self.memory.to_dicts(),
            "api": self.api.to_dicts(),
            "ranges": self.ranges.to_dicts(),
            "idle": self.gaps.to_dicts(),
            "host_samples": self.host_samples().table.to_dicts(),
            "memory_kinds": self.memory_kinds.to_dicts(),
            "launches": {"kernels": self.launches.to_dicts(), "queues": self.queues.to_dicts()},
            **self.explanation.as_json(self.run),
            "nccl_bandwidths": self.bandwidths.to_dicts(),
            "defects": [{**d._asdict(), "reports": list(d.reports)} for d in self.run.defects],
            "warnings": [*self.run.remarks, *self.host_samples().unread],
            "details": list(self.run.details),
            "missing": [{"what": what, "record": str(how)} for what, how in self.missing.items()],
            **({} if self.ncu is None else {"ncu": self.ncu.as_json()}),
        }

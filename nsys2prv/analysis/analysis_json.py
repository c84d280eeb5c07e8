"""The parts of an analysis as JSON values."""

from __future__ import annotations

from typing import Any

import polars as pl

from nsys2prv.analysis.efficiency import Efficiency, Phase
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.metrics.metrics_by_class import MetricFit
from nsys2prv.run.iterations.steady import Window


def window_values(window: Window) -> dict[str, Any]:
    """Return a window: its spans (ns of the trace), its iterations, and those left out."""
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


def device_values(found: Efficiency) -> list[dict[str, Any]]:
    """Return the times (ns) of each device."""
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


def fractions(found: Efficiency) -> dict[str, float]:
    """Return the efficiencies (fractions of 1) by name."""
    names = ("parallel", "load_balance", "communication", "orchestration")
    return {name: float(getattr(found, name)) for name in names}


def efficiency_values(found: Efficiency) -> dict[str, Any]:
    """Return an efficiency with its window and the times of its devices (ns)."""
    return {"window_ns": found.window_ns, "devices": device_values(found), "efficiency": fractions(found)}


def iteration_rows(iterations: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows of ITERATION, with `repeat` if any number comes again."""
    again = (iterations["repeat"] > 0).any()
    return (iterations if again else iterations.drop("repeat")).to_dicts()


def phase_values(phase: Phase) -> dict[str, Any]:
    """Return the efficiency of a phase or an iteration with the times of its devices (ns)."""
    return {
        "name": phase.name,
        "occurrences": phase.occurrences,
        **efficiency_values(phase.efficiency),
    }


def fit_values(fit: MetricFit, run: Run) -> dict[str, Any]:
    """Return the fit of a metric; host, gpu and rank are None where it is of all GPUs."""
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

"""One self-contained page of an analysis: no network, every text of the reports written as text."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np
import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import COPY, NCCL, Run, covered, parts_by
from nsys2prv.analysis.overlap import ALL
from nsys2prv.analysis.result import Analysis
from nsys2prv.intervals.spans import Spans
from nsys2prv.model.palette import FAMILIES, KINDS

# Intervals of the timeline over all devices, at most about; and the share of the window below which gaps are filled.
TIMELINE_SPANS = 120_000
FINEST = 1 / 40_000
TOP = 40
# Layers of the timeline, in order of drawing.
LAYERS = ("compute", "communication", "copies")


def page(found: Analysis) -> str:
    """Return the page as text."""
    template = files("nsys2prv.analysis").joinpath("page.html").read_text(encoding="utf-8")
    data = json.dumps(_data(found), separators=(",", ":"))
    style = " ".join(f"--{name}: {color.hex};" for name, color in KINDS.items())
    # Inside <script>, only `<` can end the data.
    return template.replace("/*PALETTE*/", style, 1).replace("/*DATA*/", data.replace("<", "\\u003c"), 1)


def _data(found: Analysis) -> dict[str, Any]:
    values = found.as_json()
    shown = {
        name: values[name]
        for name in ("window", "nccl", "devices", "efficiency", "host", "missing", "warnings", "ranges")
    }
    shown["warnings"] = [*(d.sentence for d in found.run.defects), *shown["warnings"]]
    operations = found.overlap.filter(pl.col("operation") != ALL)
    return {
        **shown,
        "duration_ns": found.run.duration,
        "tasks": [t._asdict() for t in found.run.tasks],
        "phases": [*values["phases"], *values["iterations"]["efficiency"]],
        "overlap": values["overlap"],
        "operations": operations.to_dicts(),
        "metrics": values["metrics"],
        "iterations": {name: values["iterations"][name] for name in ("pattern", "ranks", "rows")},
        "classes": _over_all(found.classes),
        "kernels": _over_all(found.kernels),
        "memory": _over_all(found.memory),
        "api": _over_all(found.api),
        "idle": values["idle"][:TOP],
        "layers": LAYERS,
        "families": {block.name: block.color.hex for block in FAMILIES},
        "timeline": _timeline(found.run, (found.window.start, found.window.end)),
        "marks": _marks(found),
    }


def _over_all(table: pl.DataFrame) -> list[dict[str, Any]]:
    return table.filter(pl.col("rank").is_null()).drop("rank").head(TOP).to_dicts()


def _timeline(run: Run, window: tuple[int, int]) -> list[dict[str, Any]]:
    """Return begins and lengths by device and layer (ns from the window's begin), with invisible gaps filled."""
    low, high = window
    share = max(FINEST, len(run.devices) * len(LAYERS) / TIMELINE_SPANS)
    finest = max(int((high - low) * share), 1)
    by_device = parts_by(run.work, "device")
    kinds = ([*USEFUL_KINDS], [NCCL], [COPY])
    rows = []
    for number, device in enumerate(run.devices):
        own = by_device.get(number, run.work.clear())
        layers = [_coarse(covered(own.filter(pl.col("kind").is_in(k))), low, high, finest) for k in kinds]
        rows.append({**device._asdict(), "layers": layers})
    return rows


def _coarse(spans: Spans, low: int, high: int, finest: int) -> list[list[int]]:
    """Return begins and lengths of spans in [low, high). Spans closer than `finest` become one."""
    inside = (spans.end > low) & (spans.start < high)
    start, end = np.maximum(spans.start[inside], low), np.minimum(spans.end[inside], high)
    if not len(start):
        return [[], []]
    opens = np.append(True, start[1:] - end[:-1] >= finest)
    closes = np.append(opens[1:], True)
    return [(start[opens] - low).tolist(), (end[closes] - start[opens]).tolist()]


def _marks(found: Analysis) -> list[list[int]]:
    """Return the begins of the iterations on each rank: rank, iteration, time from the window's begin."""
    low = found.window.start
    rows = found.iterations.select("rank", "iteration", pl.col("start_ns") - low).rows()
    return [list(row) for row in rows]

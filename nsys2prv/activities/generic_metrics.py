"""GPU metrics of versions that have no table for them: generic events, with all metrics of a time in one JSON text."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from nsys2prv.activities.family import Source
from nsys2prv.report import Report, schema

# What a source of generic events is called that samples GPUs. Others are ftrace, ETW, plugins.
GPU_SOURCE = "GpuMetrics"
READS = {
    schema.GENERIC_EVENTS: ("timestamp", "typeId", "data"),
    schema.GENERIC_TYPES: ("typeId", "sourceId", "data"),
    schema.GENERIC_SOURCES: ("sourceId", "data"),
}


def generic_samples(source: Source, elsewhere: pl.Series) -> dict[int, pl.DataFrame]:
    """Samples by typeId: `time` and one column a metric, by name; what GPU_METRICS has too is left to it.

    `elsewhere`: the typeIds in GPU_METRICS.
    """
    events = source.table(schema.GENERIC_EVENTS)
    if events.is_empty():
        return {}
    types = _gpu_types(source.table(schema.GENERIC_TYPES), source.table(schema.GENERIC_SOURCES))
    sampled = events.filter(pl.col("typeId").is_in(list(types)))
    source.tally.drop("generic events of other sources than GPU metrics", events.height - sampled.height)
    own = sampled.filter(~pl.col("typeId").is_in(elsewhere.implode()))
    source.tally.drop("generic events that GPU_METRICS has too", sampled.height - own.height)
    once = own.sort("timestamp", maintain_order=True).unique(["typeId", "timestamp"], keep="last", maintain_order=True)
    return {
        int(str(type_id)): part.select(pl.col("timestamp").alias("time"), *map(_value, types[int(str(type_id))]))
        for (type_id,), part in once.group_by("typeId", maintain_order=True)
    }


def count_generic(report: Report) -> int:
    """Generic events that are samples of GPU metrics and nowhere else."""
    if not report.rows(schema.GENERIC_EVENTS):
        return 0
    types = _gpu_types(report.table(schema.GENERIC_TYPES), report.table(schema.GENERIC_SOURCES))
    elsewhere = report.table(schema.METRICS, ["typeId"])["typeId"].unique()
    wanted = [t for t in types if t not in set(elsewhere)]
    return int(report.table(schema.GENERIC_EVENTS, ["typeId"])["typeId"].is_in(wanted).sum())


def _gpu_types(types: pl.DataFrame, sources: pl.DataFrame) -> dict[int, list[str]]:
    """Types of events that sample GPUs, with the names of their metrics."""
    gpu = {
        number for number, text in sources.select("sourceId", "data").rows() if _json(text).get("Name") == GPU_SOURCE
    }
    return {
        type_id: [field["Name"] for field in _json(text).get("Fields") or [] if field.get("Name")]
        for type_id, of, text in types.select("typeId", "sourceId", "data").rows()
        if of in gpu
    }


def _json(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _value(name: str) -> pl.Expr:
    """A metric's values, out of the JSON texts, where they are texts or numbers."""
    text = pl.col("data").str.json_path_match(f"$[{json.dumps(name)}]")
    return text.cast(pl.Float64, strict=False).round().cast(pl.Int64, strict=False).alias(name.strip())

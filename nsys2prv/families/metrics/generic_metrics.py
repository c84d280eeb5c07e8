"""GPU metrics of versions that have no table for them: generic events, with all metrics of a time in one JSON text."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.source import Source
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema
from nsys2prv.report.declaration import TIME_LIMIT
from nsys2prv.report.json_text import decoded
from nsys2prv.report.report import Report

# Name of the source of generic events that samples GPUs. Other sources are ftrace, ETW, plugins.
GPU_SOURCE = "GpuMetrics"
# The clock of raw times that are ns of the session, as all other times are.
SESSION_CLOCK = "SessionNs"
_SOURCE = pl.Struct({"Name": pl.String(), "TimeSource": pl.String()})
_TYPE = pl.Struct({"Fields": pl.List(pl.Struct({"Name": pl.String()}))})
READS = {
    schema.GENERIC_EVENTS: ("timestamp", "rawTimestamp", "typeId", "data"),
    schema.GENERIC_TYPES: ("typeId", "sourceId", "data"),
    schema.GENERIC_SOURCES: ("sourceId", "data"),
}


def generic_samples(source: Source, elsewhere: pl.Series) -> dict[int, pl.DataFrame]:
    """Return samples by typeId: `time` and one column a metric, by name.

    `elsewhere`: the typeIds in GPU_METRICS, which are left out: their samples are there.
    """
    events = source.table(schema.GENERIC_EVENTS)
    if events.is_empty():
        return {}
    sources = source.table(schema.GENERIC_SOURCES)
    types = _gpu_types(source.table(schema.GENERIC_TYPES), sources)
    sampled = events.filter(pl.col("typeId").is_in(list(types)))
    source.tally.count(Loss.OTHER_GENERIC, events.height - sampled.height)
    here = sampled.filter(~pl.col("typeId").is_in(elsewhere.implode()))
    own = _with_raw_times(here, source.table(schema.GENERIC_TYPES), sources).drop_nulls("timestamp")
    source.tally.count(Loss.NO_TIME, here.height - own.height)
    known = own.filter(pl.col("typeId").is_in([t for t, names in types.items() if names]))
    source.tally.count(Loss.UNNAMED_METRICS, own.height - known.height)
    known = known.sort("timestamp", maintain_order=True).unique(
        ["typeId", "timestamp"], keep="last", maintain_order=True
    )
    return {
        type_id: part.select(time="timestamp").hstack(_values(part["data"], types[type_id]))
        for (type_id,), part in known.partition_by("typeId", as_dict=True, maintain_order=True).items()
    }


def _with_raw_times(events: pl.DataFrame, types: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
    """Complete missing times by raw ones, of types whose source counts these in ns of the session."""
    clock = decoded(sources["data"], _SOURCE).struct.field("TimeSource")
    in_session = sources.filter(clock.fill_null(SESSION_CLOCK) == SESSION_CLOCK)["sourceId"]
    dated = types.filter(pl.col("sourceId").is_in(in_session.implode()))["typeId"]
    raw = pl.col("rawTimestamp").is_between(-TIME_LIMIT, TIME_LIMIT)
    usable = pl.when(raw & pl.col("typeId").is_in(dated.implode())).then("rawTimestamp")
    return events.with_columns(pl.coalesce("timestamp", usable).alias("timestamp"))


def count_generic(report: Report) -> int:
    """Count generic events that are samples of GPU metrics and stand in no other table."""
    if not report.rows(schema.GENERIC_EVENTS):
        return 0
    types = _gpu_types(report.table(schema.GENERIC_TYPES), report.table(schema.GENERIC_SOURCES))
    elsewhere = report.table(schema.METRICS, ["typeId"])["typeId"].unique()
    wanted = [t for t in types if t not in set(elsewhere)]
    return int(report.table(schema.GENERIC_EVENTS, ["typeId"])["typeId"].is_in(wanted).sum())


def _gpu_types(types: pl.DataFrame, sources: pl.DataFrame) -> dict[int, list[str]]:
    """Return types of events that sample GPUs, with the names of their metrics."""
    gpu = sources.filter(decoded(sources["data"], _SOURCE).struct.field("Name") == GPU_SOURCE)["sourceId"]
    fields = types.with_columns(fields=decoded(types["data"], _TYPE).struct.field("Fields"))
    return {
        type_id: [field["Name"] for field in described or [] if field and field["Name"]]
        for type_id, of, described in fields.select("typeId", "sourceId", "fields").drop_nulls("typeId").rows()
        if of is not None and of in gpu
    }


def _values(data: pl.Series, names: list[str]) -> pl.DataFrame:
    """Return one column a metric, out of the JSON texts, where its values are texts or numbers."""
    found = decoded(data, pl.Struct(dict.fromkeys(names, pl.String()))).struct.unnest()
    numbers = found.select(pl.all().cast(pl.Float64, strict=False).round().cast(pl.Int64, strict=False))
    columns: dict[str, pl.Series] = {}
    for column in numbers:
        columns.setdefault(column.name.strip(), column)
    return pl.DataFrame(columns)

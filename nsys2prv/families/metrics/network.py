"""Metrics of network cards, InfiniBand and Ethernet switches, as rates over short intervals.

They have no row: they are on the metrics row of the host's first GPU, a type for each card, port and metric.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import NETWORK_METRIC
from nsys2prv.model.frames import Samples
from nsys2prv.report import schema

TABLES = (schema.NIC_METRICS, schema.SWITCH_METRICS, schema.ETHERNET_METRICS)
COLUMNS = ("start", "end", "globalId", "portId", "metricsListId", "metricsIdx", "value")


def _frames(source: Source, state: None) -> Frames[None]:
    gpu = min((g.id for g in source.report.identity.gpus), default=0)
    metrics = _metrics(source)
    for table, names in zip(TABLES, (_cards(source), _switches(source), _ethernet(source)), strict=True):
        rows = source.table(table).join(names, on="globalId", how="left", maintain_order="left")
        named = rows.join(metrics, on=["metricsListId", "metricsIdx"], how="left", maintain_order="left")
        port = pl.when(pl.col("portId").is_not_null()).then(pl.format(" port {}", "portId")).otherwise(pl.lit(""))
        unknown = pl.format("metric {}.{}", "metricsListId", "metricsIdx")
        device = pl.coalesce("device", pl.format("device {}", "globalId"))
        key = pl.format("{}{}: {}", device, port, pl.coalesce("metric", unknown))
        keyed = named.with_columns(key=pl.lit(NETWORK_METRIC.of("")) + key, device=device)
        # By name, since other reports of the host may give the device another number.
        for (name,), part in keyed.group_by("device", maintain_order=True):
            wide = _by_time(part)
            columns = tuple(c for c in wide.columns if c != "time")
            place = source.places.gpus(pl.repeat(gpu, wide.height, eager=True), f"{table.name} {name}")
            yield Samples(wide.select("time", place.alias("place"), *columns), columns)


def _by_time(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row a time and a column a metric; 0 where a metric was not measured for longer than a sample lasts."""
    rows = rows.sort("start", "end")
    after = pl.col("start").shift(-1).over("key")
    pause = (after - pl.col("end") > pl.col("end") - pl.col("start")).fill_null(True)
    pauses = rows.filter(pause).select("key", time="end", value=pl.lit(0, pl.Int64))
    values = pl.concat([rows.select("key", "value", time="start").select(pauses.columns), pauses])
    once = values.unique(["key", "time"], keep="first", maintain_order=True)
    wide: pl.DataFrame = once.sort("key").pivot(on="key", index="time", values="value")
    return wide.sort("time")


def _metrics(source: Source) -> pl.DataFrame:
    """Return metricsListId, metricsIdx, and `metric`: name and unit."""
    names = source.table(schema.NETWORK_METRIC_NAMES).drop_nulls("name")
    unit = pl.when(pl.col("unit").fill_null("") != "").then(pl.format(" [{}]", "unit")).otherwise(pl.lit(""))
    metric = (pl.col("name") + unit).alias("metric")
    key = ["metricsListId", "metricsIdx"]
    return names.select(*key, metric).unique(key, keep="first", maintain_order=True)


def _cards(source: Source) -> pl.DataFrame:
    """Return globalId of the samples, and `device`: the card's name."""
    cards = source.table(schema.NICS).unique("nicId", keep="first", maintain_order=True)
    ids = source.table(schema.NIC_IDS).unique("globalId", keep="first", maintain_order=True)
    return ids.join(cards, on="nicId", how="inner").select("globalId", device="name")


def _switches(source: Source) -> pl.DataFrame:
    """Return globalId of the samples, which is the switch's GUID, and `device`."""
    guids = source.table(schema.SWITCH_METRICS)["globalId"].unique(maintain_order=True)
    names = [f"IB switch {guid & (1 << 64) - 1:x}" for guid in guids]
    return pl.DataFrame({"globalId": guids, "device": pl.Series(names, dtype=pl.String)})


def _ethernet(source: Source) -> pl.DataFrame:
    """Return globalId of the samples, which is the hash of the switch's name, and `device`: that name."""
    hashes = source.table(schema.ETHERNET_METRICS)["globalId"].unique(maintain_order=True).to_frame()
    names = source.table(schema.NETWORK_DEVICES).unique("guid", keep="first", maintain_order=True)
    named = hashes.join(names, left_on="globalId", right_on="guid", how="left", maintain_order="left")
    name = pl.coalesce("name", pl.col("globalId").cast(pl.String))
    return named.select("globalId", device=pl.format("Ethernet switch {}", name))


FAMILY = Family(
    name="network",
    title="Network metrics",
    draws=TABLES,
    reads={
        **dict.fromkeys(TABLES, COLUMNS),
        schema.NETWORK_METRIC_NAMES: ("metricsListId", "metricsIdx", "name", "unit"),
        schema.NIC_IDS: ("nicId", "globalId"),
        schema.NICS: ("nicId", "name"),
        schema.NETWORK_DEVICES: ("guid", "name"),
    },
    emits=(NETWORK_METRIC,),
    frames=_frames,
    makes_rows=False,
    public=("nic_metrics",),
    seen=False,
)

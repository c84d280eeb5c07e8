"""GPU metrics: samples of all metrics of a GPU. A metric is written only when its value changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.metrics.generic_metrics import READS, count_generic, generic_samples
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import GPU_METRIC, METRICS_SAMPLED
from nsys2prv.model.frames import Samples
from nsys2prv.report import schema

# The GPU, by its host's number, in the low bits of typeId.
GPU_BITS = 0xFF


class SampledGpus(NamedTuple):
    """The typeIds of GPU_METRICS in earlier slices."""

    type_ids: tuple[int, ...] = ()


def _frames(source: Source, state: SampledGpus) -> Frames[SampledGpus]:
    """Yield the samples of each GPU, a column a metric."""
    names = metric_names(source.table(schema.METRIC_NAMES))
    rows = source.table(schema.METRICS)
    # As a list: the result of `unique` may keep the whole column in memory.
    sampling = rows["typeId"].unique().sort().to_list()
    for type_id in sampling:
        # Mostly there is one, and nothing to copy.
        part = rows if len(sampling) == 1 else rows.filter(pl.col("typeId") == type_id)
        known = dict(names.filter(pl.col("typeId") == type_id).select("metricId", "name").rows())
        for number, name in known.items():
            source.notes.preferred.setdefault(GPU_METRIC.of(name), number)
        sampled = part["metricId"].unique().sort().to_list()
        known |= _names_of([(number, None) for number in sampled if number not in known], set(known.values()))
        yield _samples(source, type_id, _by_time(part, {number: known[number] for number in sampled}))
    every = (*state.type_ids, *sampling)
    # Generic events are not cut: all of them are drawn with the last slice.
    if source.slice.last:
        for type_id, samples in generic_samples(source, pl.Series(every, dtype=pl.Int64())).items():
            yield _samples(source, type_id, samples)
    return SampledGpus(every)


def metric_names(metrics: pl.DataFrame) -> pl.DataFrame:
    """Return typeId, metricId and name of the metrics in METRIC_NAMES. No two metrics of a GPU get one name."""
    named = metrics.drop_nulls(["typeId", "metricId"])
    once = named.unique(["typeId", "metricId"], keep="last", maintain_order=True)
    rows = [
        (type_id, number, name)
        for (type_id,), part in once.group_by("typeId", maintain_order=True)
        for number, name in _names_of(part.select("metricId", "metricName").rows(), set()).items()
    ]
    return pl.DataFrame(rows, schema={"typeId": pl.Int64, "metricId": pl.Int64, "name": pl.String}, orient="row")


def _names_of(metrics: Sequence[tuple[int, str | None]], taken: set[str]) -> dict[int, str]:
    """Return names by number. A metric without a name, or with a taken one, gets its number in the name."""
    names = {}
    for number, given in metrics:
        name = (given or "").strip() or f"metric {number}"
        while name in taken:
            name = f"{name} (metric {number})"
        taken.add(name)
        names[number] = name
    return names


def _samples(source: Source, type_id: int, samples: pl.DataFrame) -> Samples:
    """Return samples of the GPU that a typeId names, from its `time` and one column a metric."""
    gpu = pl.repeat(type_id & GPU_BITS, samples.height, eager=True)
    columns = [GPU_METRIC.of(n) for n in samples.columns[1:]]
    named = samples.rename(dict(zip(samples.columns[1:], columns, strict=True)))
    return Samples(named.insert_column(1, source.places.gpus(gpu, GPU_METRIC.key).alias("place")), tuple(columns))


def _by_time(rows: pl.DataFrame, names: dict[int, str]) -> pl.DataFrame:
    """Return a row a sample: `time` and a column a metric, in the order of `names`, which has the metrics of all rows.

    Of a metric that was sampled twice at one time the last value counts.
    """
    rows = rows if rows["timestamp"].is_sorted() else rows.sort("timestamp", maintain_order=True)
    order = _order(rows, len(names))
    if order is None:
        return _joined(rows, names)
    values = (pl.col("value").gather_every(len(order), order.index(n)).alias(name) for n, name in names.items())
    return rows.select(pl.col("timestamp").gather_every(len(order)).alias("time"), *values)


def _order(rows: pl.DataFrame, count: int) -> list[int] | None:
    """Return the order of the metrics, if every sample has all `count` of them in one order, as nsys writes them.

    None if any sample differs.
    """
    if not count or rows.height % count:
        return None
    metrics = rows["metricId"].to_numpy().reshape(-1, count)
    times = rows["timestamp"].to_numpy().reshape(-1, count)
    same = (metrics == metrics[0]).all() and (times == times[:, :1]).all() and (times[1:, 0] > times[:-1, 0]).all()
    return metrics[0].tolist() if same else None


def _joined(rows: pl.DataFrame, names: dict[int, str]) -> pl.DataFrame:
    """Return the same as `_by_time` for samples in any order, in twice the time and with twice the memory."""
    times = rows.select(time=pl.col("timestamp").unique(maintain_order=True))
    by_metric = rows.partition_by("metricId", as_dict=True, include_key=False)
    columns = []
    for number, name in names.items():
        one = by_metric[number,]
        if one.height != times.height or not one["timestamp"].equals(times["time"]):
            once = one.unique("timestamp", keep="last", maintain_order=True)
            one = times.join(once, left_on="time", right_on="timestamp", how="left", maintain_order="left")
        columns.append(one["value"].alias(name))
    return pl.DataFrame([times["time"], *columns])


FAMILY = Family(
    name="gpu_metrics",
    title="GPU metrics",
    draws=(schema.METRICS, schema.GENERIC_EVENTS),
    reads={
        schema.METRICS: ("timestamp", "typeId", "metricId", "value"),
        schema.METRIC_NAMES: ("typeId", "metricId", "metricName"),
        **READS,
    },
    emits=(GPU_METRIC, METRICS_SAMPLED),
    frames=_frames,
    state=SampledGpus,
    count=lambda report: report.rows(schema.METRICS) + count_generic(report),
    makes_rows=False,
    public=("gpu_metrics",),
    sliced=True,
)

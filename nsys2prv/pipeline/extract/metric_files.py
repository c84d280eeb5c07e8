"""Stored samples of single GPU metrics: an hour of samples must not be in memory at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.errors import not_written
from nsys2prv.families.metrics.generic_metrics import generic_samples
from nsys2prv.families.metrics.gpu_metrics import GPU_BITS, metric_names
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import GPU_METRIC
from nsys2prv.model.frames import Samples
from nsys2prv.model.losses import Loss
from nsys2prv.model.metric_names import holds_any
from nsys2prv.pipeline.extract.report_part import ReportPart
from nsys2prv.report import schema
from nsys2prv.report.declaration import TIME_LIMIT
from nsys2prv.run.report_summary import MetricSamples

METRIC_COLUMNS = ("timestamp", "typeId", "metricId", "value")


class Unwanted(NamedTuple):
    """The samples of a GPU without any of the metrics that are wanted: their number, first and last time (ns)."""

    place: int
    rows: int
    first: int
    last: int


def keep_metrics(source: Source, part: ReportPart, files: MetricFiles) -> Iterator[Unwanted]:
    """Keep the metrics asked for of every GPU in `files`; yield the GPUs without one of them. Raises OutputError."""
    known = metric_names(source.report.table(schema.METRIC_NAMES))
    for number, name in known.select("metricId", "name").rows():
        source.notes.preferred.setdefault(GPU_METRIC.of(name), number)
    if part.storage.folder is None:
        return
    for type_id, name, samples in _samples(source, known, part):
        place = int(source.places.gpus(pl.Series([type_id & GPU_BITS]), GPU_METRIC.key)[0])
        if name is None:
            time = samples["time"].to_numpy()
            yield Unwanted(place, len(time), int(time.min()), int(time.max()))
        else:
            files.add(place, GPU_METRIC.of(name), samples)


def _samples(source: Source, known: pl.DataFrame, part: ReportPart) -> Iterator[tuple[int, str | None, pl.DataFrame]]:
    """Yield pieces of the metrics that are wanted: typeId, name, samples (time, value).

    For a GPU without any of them, the first metric comes without its name, to show when the GPU was sampled.
    """
    texts = part.wanted.metrics
    if known.is_empty():
        # Versions without a table of metrics have them as generic events, which come as texts and all at once.
        for type_id, samples in generic_samples(source, pl.Series(dtype=pl.Int64)).items():
            names = [n for n in samples.columns[1:] if holds_any(n, texts)]
            for name in names:
                yield type_id, name, samples.select("time", value=name)
            if not names:
                yield type_id, None, samples
        return
    chosen: dict[tuple[int, int], str | None] = {(t, n): name for t, n, name in known.rows() if holds_any(name, texts)}
    of_others = known.filter(~pl.col("typeId").is_in({t for t, _ in chosen})).unique("typeId", maintain_order=True)
    chosen |= {(t, n): None for t, n, _ in of_others.rows()}
    wanted = {"typeId": sorted({t for t, _ in chosen}), "metricId": sorted({n for _, n in chosen})}
    for read in source.report.pieces(schema.METRICS, METRIC_COLUMNS, part.limits.metric_rows, wanted):
        sound = _timed(source, read())
        for (type_id, number), rows in sound.group_by("typeId", "metricId", maintain_order=True):
            key = int(str(type_id)), int(str(number))
            if key in chosen:
                yield key[0], chosen[key], rows.select(time="timestamp", value="value")


def _timed(source: Source, samples: pl.DataFrame) -> pl.DataFrame:
    """Return the samples with a possible time, and count the others."""
    timed = samples.filter(pl.col("timestamp").is_between(-TIME_LIMIT, TIME_LIMIT))
    source.tally.count(Loss.NO_TIME, samples.height - timed.height)
    return timed


class MetricFiles:
    """A folder for each GPU and metric, filled with samples as they come."""

    def __init__(self, part: ReportPart) -> None:
        self.part = part
        self._files: dict[tuple[int, str], _Pieces] = {}

    def add_frame(self, frame: Samples) -> None:
        """Keep the metrics asked for of a GPU's samples. Raises OutputError."""
        if frame.data.is_empty():
            return
        place = int(frame.data["place"][0])
        for column in (c for c in frame.columns if holds_any(c, self.part.wanted.metrics)):
            self.add(place, column, frame.data.select("time", value=column))

    def add(self, place: int, column: str, samples: pl.DataFrame) -> None:
        """Append samples (time, value) of a metric. Raises OutputError."""
        if self.part.storage.folder is None:
            return
        if (place, column) not in self._files:
            folder = self.part.storage.folder / f"{self.part.storage.name}.metric.{len(self._files)}"
            self._files[place, column] = _Pieces(folder, self.part.limits.metric_rows, self.part.storage.in_memory)
        self._files[place, column].add(samples)

    def close(self) -> Iterator[MetricSamples]:
        """Yield the samples of every GPU and metric: Arrow files by number, (time, value) each, in order of time."""
        for (place, column), file in self._files.items():
            rows, first, last = file.close()
            if rows:
                yield MetricSamples(place, column, rows, first, last, file.folder, file.held())


def read_pieces(metric: MetricSamples) -> Iterator[pl.DataFrame]:
    """Yield the samples of one metric piece by piece: time (the report's ns), value."""
    return _pieces_in(metric.folder) if metric.held is None else iter([metric.held])


def _pieces_in(folder: Path) -> Iterator[pl.DataFrame]:
    for path in sorted(folder.iterdir(), key=lambda p: int(p.stem)):
        # Polars opens no path that is not UTF-8.
        with path.open("rb") as file:
            yield pl.read_ipc(file)


class _Pieces:
    """Samples of one metric as they come, in files or in memory.

    They are sorted at the end if the report has them out of order. A metric has one value at a time: of several at one
    time the last one is kept, as the trace would show it.
    """

    def __init__(self, folder: Path, piece_rows: int, in_memory: bool) -> None:
        self.folder, self.piece_rows = folder, piece_rows
        self._held: list[pl.DataFrame] | None = [] if in_memory else None
        self._rows, self._count, self._first, self._last, self._sorted = 0, 0, 0, 0, True

    def add(self, samples: pl.DataFrame) -> None:
        """Append samples: time, value."""
        piece = samples.drop_nulls()
        if piece.is_empty():
            return
        times = piece["time"].to_numpy()
        low, high = int(times.min()), int(times.max())
        in_order = bool((np.diff(times) > 0).all()) and (not self._rows or low > self._last)
        self._first = min(self._first, low) if self._rows else low
        self._last = max(self._last, high) if self._rows else high
        self._sorted = self._sorted and in_order
        self._rows += piece.height
        self._write(piece)

    def close(self) -> tuple[int, int, int]:
        """Sort the samples if need be; return their number, first and last time."""
        if not self._sorted:
            unsorted = pl.concat(_pieces_in(self.folder) if self._held is None else self._held)
            once = unsorted.sort("time", maintain_order=True).unique("time", keep="last", maintain_order=True)
            self._clear()
            self._rows = once.height
            for piece in once.iter_slices(self.piece_rows):
                self._write(piece)
        return self._rows, self._first, self._last

    def held(self) -> pl.DataFrame | None:
        """Return the samples if they are in memory."""
        return pl.concat(self._held) if self._held else None

    def _clear(self) -> None:
        if self._held is None:
            shutil.rmtree(self.folder)
        else:
            self._held.clear()

    def _write(self, piece: pl.DataFrame) -> None:
        """Write a piece to a file of its own, or keep it. Raises OutputError."""
        if self._held is not None:
            self._held.append(piece)
            return
        try:
            self.folder.mkdir(exist_ok=True)
            with (self.folder / f"{self._count}.arrow").open("wb") as file:
                piece.write_ipc(file, compression="uncompressed")
        except OSError as error:
            raise not_written(self.folder.parent, error) from None
        self._count += 1

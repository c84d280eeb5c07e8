"""Frames of a run as Parquet files in a folder that appears whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from nsys2prv.errors import OutputError, UsageError, output_not_written
from nsys2prv.pipeline.write.files import scratch

ENDING = ".parquet"
# Frames of a file each, and the folder of the samples, which has a file a metric.
FRAMES, SAMPLES = ("kernels", "nccl", "copies", "calls", "ranges", "messages"), "samples"


class FrameFile(NamedTuple):
    """A frame that was written. `name`: of the frame, or of the metric."""

    name: str
    path: Path
    rows: int


def check_folder(folder: Path, force: bool) -> None:
    """Refuse a folder that exists, but for an empty one; with `force` also a former export. Raises Nsys2prvError."""
    if not folder.absolute().parent.is_dir():
        raise OutputError(f"{folder.parent}: no such folder; create it or choose another output")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise OutputError(f"{folder}: this is a file; choose another output")
    files = [path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()]
    ours = {Path(f"{name}{ENDING}") for name in FRAMES}
    # A report as Parquet is a folder of such files, too.
    if others := [folder / path for path in files if path not in ours and not _of_samples(path)]:
        raise UsageError(f"{others[0]}: the folder has other files than an export; choose another output")
    if files and not force:
        raise UsageError(f"{folder}: the folder has files already; use --force to write over them")


def _of_samples(path: Path) -> bool:
    """Return True for a path as an export gives it to the samples of a metric, relative to the folder."""
    return len(path.parts) == 2 and path.parts[0] == SAMPLES and path.suffix == ENDING


def write_frames(
    frames: Mapping[str, Callable[[], pl.DataFrame]],
    samples: Mapping[str, Callable[[], pl.DataFrame]],
    folder: Path,
    force: bool,
) -> tuple[FrameFile, ...]:
    """Write frames as `NAME.parquet`, and the samples of each metric as `samples/METRIC.parquet`.

    A frame is made when its turn comes. `force`: write over a former export. Raises Nsys2prvError.
    """
    check_folder(folder, force)
    folder = folder.absolute()
    places = {name: f"{name}{ENDING}" for name in frames}
    wanted = [(name, places[name], made) for name, made in frames.items()]
    wanted += [(name, place, samples[name]) for name, place in _sample_places(samples).items()]
    with scratch(folder) as beside:
        new, written = beside / "new", []
        try:
            (new / SAMPLES if samples else new).mkdir(parents=True)
            for name, place, made in wanted:
                frame = made()
                frame.write_parquet(new / place)
                written.append(FrameFile(name, folder / place, frame.height))
            if folder.exists():
                folder.replace(beside / "former")
            new.rename(folder)
        except OSError as error:
            raise output_not_written(folder, error) from None
    return tuple(written)


def _sample_places(metrics: Mapping[str, object]) -> dict[str, str]:
    """Return the file of each metric, named by its letters and digits."""
    places: dict[str, str] = {}
    for name in metrics:
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "metric"
        place, number = f"{SAMPLES}/{plain}{ENDING}", 1
        while place in places.values():
            number += 1
            place = f"{SAMPLES}/{plain}-{number}{ENDING}"
        places[name] = place
    return places

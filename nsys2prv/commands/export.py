"""Export of the frames of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nsys2prv.commands.analyze import ANALYZED
from nsys2prv.commands.frames_written import FrameFile, check_folder
from nsys2prv.commands.load import EVERY_METRIC, LoadedRun, load
from nsys2prv.families.metrics.gpu_metrics import FAMILY as GPU_METRICS
from nsys2prv.families.selection import Selection, default_families
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.run.run_options import RunOptions

# Families whose events are in frames.
IN_FRAMES = (*ANALYZED, GPU_METRICS.name)


class Exported(NamedTuple):
    """The files of an export, and warnings: on the run, on what is left out, and on choices that match nothing."""

    files: tuple[FrameFile, ...]
    warnings: tuple[str, ...]


def export(
    inputs: Iterable[Path | str] | Path | str,
    folder: Path | str,
    *,
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
    metrics: Sequence[str] = EVERY_METRIC,
    force: bool = False,
) -> Exported:
    """Write the frames of a run as Parquet files into a folder: those of `LoadedRun`, on one clock.

    The folder gets a file a frame, such as `kernels.parquet`, and `samples/` with a file a metric. `force`: write over
    a former export; the other parameters are those of `load`. Raises Nsys2prvError.
    """
    # Refuse an unusable folder before the work begins.
    check_folder(Path(folder), force)
    with load(inputs, selection=selection, options=options, execution=execution, metrics=metrics) as run:
        return Exported(run.export(folder, force=force), (*run.warnings, *_unmatched(run, selection, metrics)))


def _unmatched(run: LoadedRun, selection: Selection, metrics: Sequence[str]) -> Iterator[str]:
    """Yield the chosen families of which no frame holds anything, and chosen metrics where none are read."""
    others = [name for name in selection.families if name not in IN_FRAMES and name not in default_families()]
    if others or not set(IN_FRAMES).intersection(selection.families):
        yield f"No frame holds {', '.join(others or selection.families)}; frames hold {', '.join(IN_FRAMES)}."
    if tuple(metrics) == EVERY_METRIC:
        return
    named = ", ".join(metrics)
    if GPU_METRICS.name not in selection.families:
        yield f"No samples of {named} are written: --only or --skip leaves out {GPU_METRICS.name}."
    elif not run.metrics:
        how = "nsys profile --gpu-metrics-devices=all"
        yield f"No samples of {named} are written: the reports hold no GPU metrics ({how})."

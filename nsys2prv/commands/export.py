"""Export of the frames of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from nsys2prv.commands.frames_written import FrameFile, check_folder
from nsys2prv.commands.load import EVERY_METRIC, load
from nsys2prv.families.selection import Selection
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.run.options import RunOptions


def export(
    inputs: Iterable[Path | str] | Path | str,
    folder: Path | str,
    *,
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
    metrics: Sequence[str] = EVERY_METRIC,
    force: bool = False,
) -> tuple[FrameFile, ...]:
    """Write the frames of a run as Parquet files into a folder: those of `LoadedRun`, on one clock.

    The folder gets a file a frame, such as `kernels.parquet`, and `samples/` with a file a metric. `force`: write over
    a former export; the other parameters are those of `load`. Raises Nsys2prvError.
    """
    # Refuse an unusable folder before the work begins.
    check_folder(Path(folder), force)
    with load(inputs, selection=selection, options=options, execution=execution, metrics=metrics) as run:
        return run.export(folder, force=force)

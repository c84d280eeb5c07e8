"""Rows of the trace in order, with the numbers by which its lines name them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsys2prv.paraver.lines import RowNumbers

# The row number of a place that is not drawn.
NO_ROW = -1


class TraceRows(NamedTuple):
    """The rows of a trace in order: for each its task, thread and CPU (all 1-based), and label."""

    task: npt.NDArray[np.int64]
    thread: npt.NDArray[np.int64]
    cpu: npt.NDArray[np.int64]
    label: tuple[str, ...]
    # Kind of each row: STREAM, THREAD or GPU.
    kind: tuple[str, ...]
    # GPU's number on its host, and stream; NO_ROW if a row has none.
    gpu: npt.NDArray[np.int64]
    stream: npt.NDArray[np.int64]
    # First of the rows that are lanes of one stream, thread or GPU. A label does not tell: streams of two contexts may
    # have one.
    first_lane: npt.NDArray[np.int64]

    @property
    def numbers(self) -> RowNumbers:
        """Return the numbers by which lines of the trace name the rows."""
        return RowNumbers(self.cpu, self.task, self.thread)

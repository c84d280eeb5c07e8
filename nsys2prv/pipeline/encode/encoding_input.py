"""The input of encoding: the plan, and the results of later stages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsys2prv.model.losses import Lost
from nsys2prv.paraver.labels import PcfType
from nsys2prv.pipeline.match.match import Matches
from nsys2prv.pipeline.store.saved_plan import for_workers, save, without_reports
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Spill


class Estimates(NamedTuple):
    """A metric estimated by class of kernels on each GPU.

    `device[row]` is the GPU of a row of the trace (-1: none), `values[device, class]` the estimate by the run's number
    of a class (0: none), `classes[r]` that number by report r's number of a class. `kernels`: how many kernels got an
    estimate; `left`: activities for which none was made, by reason.
    """

    device: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]
    classes: tuple[npt.NDArray[np.int64], ...]
    kernels: int
    left: Mapping[Lost, int]


class RunEvents(NamedTuple):
    """Events on rows of the trace that come from no single report, and their type for the PCF.

    The points' combinations are positions in the type's values. `further`: the types of the points' columns of further
    values. `left`: how many events of `family` are missing or altered, by reason; `remarks`: for the user, as
    sentences. `spill` is None where there are no events.
    """

    family: str
    spill: Spill | None
    event_type: PcfType
    further: Mapping[str, PcfType] = {}
    left: Mapping[Lost, int] = {}
    remarks: tuple[str, ...] = ()

    @property
    def event_types(self) -> tuple[PcfType, ...]:
        """Return the event types of the trace: all if there are events."""
        return (self.event_type, *self.further.values()) if self.spill else ()


class Bundles(NamedTuple):
    """Lines of reports that were merged before windows are made of all: see bundles. `borders`: of windows."""

    spills: tuple[Spill, ...]
    borders: npt.NDArray[np.int64]


class EncodingInput(NamedTuple):
    """All that encoding a window needs. With `bundles`, windows are made of these instead of the reports' points."""

    plan: Plan
    matches: Matches
    estimates: Estimates | None = None
    bundles: Bundles | None = None
    # Of the critical path, of the causes of idle time, and of files of Nsight Compute.
    run_events: tuple[RunEvents, ...] = ()

    @property
    def run_spills(self) -> tuple[Spill, ...]:
        """Return the points of waiting, transfer and `run_events`, which come from no single report."""
        return (*self.matches.waiting, *(one.spill for one in self.run_events if one.spill))

    @property
    def borders(self) -> npt.NDArray[np.int64]:
        """Return the borders of the windows: each is [b[i], b[i + 1])."""
        return self.plan.borders if self.bundles is None else self.bundles.borders

    @property
    def windows(self) -> range:
        """Return the numbers of the windows."""
        return range(len(self.borders) - 1)

    def save(self, path: Path) -> None:
        """Write what workers need where they can read it (see read_saved). Raises OutputError."""
        if self.bundles is None:
            save(self._replace(plan=for_workers(self.plan)), path)
        else:
            matches = self.matches._replace(before=())
            save(self._replace(plan=without_reports(self.plan), matches=matches, estimates=None), path)

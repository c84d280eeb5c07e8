"""From each report's clock to the one of the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from nsys2prv.report.identity import Identity

Align = Literal["auto", "utc", "none"]


@dataclass(frozen=True, slots=True)
class Clock:
    """Merged time = round((t - start) * slope) + offset, ns. `method` says where the numbers come from."""

    start: int
    offset: int
    slope: float = 1.0
    method: str = "utc"

    def merged(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Times of the report on the merged time line."""
        elapsed: npt.NDArray[np.int64] = times - self.start
        if self.slope != 1.0:
            # The stretch is small: its product is exact to far below a nanosecond, the elapsed time's would not be.
            elapsed += np.rint(elapsed * (self.slope - 1.0)).astype(np.int64)
        elapsed += self.offset
        return elapsed

    def merged_one(self, time: int) -> int:
        """One time on the merged time line."""
        return int(self.merged(np.array([time], dtype=np.int64))[0])

    def local_one(self, merged: int) -> int:
        """The report's time for one time on the merged time line: the inverse, to the ns."""
        guess = self.start + round((merged - self.offset) / self.slope)
        return guess + (merged - self.merged_one(guess))

    def shifted(self, by: int) -> Clock:
        """The same clock on a time line that begins `by` ns later."""
        return Clock(self.start, self.offset - by, self.slope, self.method)


def align(identities: Sequence[Identity], how: Align) -> tuple[list[Clock], list[str]]:
    """A clock for each report by the wall clock of its session start, and warnings.

    `none` takes every session to have begun at once. A report without a wall clock begins with the earliest session.
    """
    known = [i.utc_epoch_ns for i in identities if i.utc_epoch_ns is not None]
    if how == "none" or not known:
        warnings = (
            [] if how == "none" or len(identities) < 2 else ["no report has a wall clock: all sessions begin at once"]
        )
        return [Clock(i.time_shift_ns, 0, method="none") for i in identities], warnings
    earliest = min(known)
    clocks = [
        Clock(i.time_shift_ns, (i.utc_epoch_ns if i.utc_epoch_ns is not None else earliest) - earliest)
        for i in identities
    ]
    missing = sum(i.utc_epoch_ns is None for i in identities)
    warning = f"{missing} of {len(identities)} reports have no wall clock: they begin with the earliest session"
    return clocks, [warning] if missing else []

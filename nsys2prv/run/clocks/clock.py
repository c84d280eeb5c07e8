"""The map from a report's clock to the merged time line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Clock(NamedTuple):
    """A linear map: merged time = round((t - start) * slope) + offset, ns. `method` names its source."""

    start: int
    offset: int
    slope: float = 1.0
    method: str = "utc"

    def merged(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Convert times of the report to the merged time line."""
        elapsed: npt.NDArray[np.int64] = times - self.start
        if self.slope != 1.0:
            # Only the small deviation of the slope is multiplied: that product is exact far below a nanosecond.
            elapsed += np.rint(elapsed * (self.slope - 1.0)).astype(np.int64)
        elapsed += self.offset
        return elapsed

    def merged_one(self, time: int) -> int:
        """Convert one time of the report to the merged time line."""
        return int(self.merged(np.array([time], dtype=np.int64))[0])

    def local_one(self, merged: int) -> int:
        """Convert one time on the merged time line to the report's: the inverse, to the ns."""
        guess = self.start + round((merged - self.offset) / self.slope)
        return guess + (merged - self.merged_one(guess))

    def shifted(self, by: int) -> Clock:
        """Return the same clock on a time line that begins `by` ns later."""
        return self._replace(offset=self.offset - by)

    def corrected(self, by: int, slope: float, method: str) -> Clock:
        """Return the clock `by` ns later at the session start, and `slope` times as fast from there on."""
        return Clock(self.start, self.offset + by, slope, method)

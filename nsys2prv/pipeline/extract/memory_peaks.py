"""The most device memory that each process of a report held on each GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from nsys2prv.model.event_types import MEMORY_IN_USE
from nsys2prv.model.frames import Samples

# Kinds of memory that lies on the device (ENUM_CUDA_MEM_KIND): device, array, device static. Managed memory moves.
ON_DEVICE = tuple(MEMORY_IN_USE[kind].key for kind in (2, 3, 5))


@dataclass
class MemoryPeaks:
    """Peaks of the device memory in use, piece by piece in order of time.

    `peaks`: by place, the most bytes and when (ns, the report's clock).
    """

    peaks: dict[int, tuple[int, int]] = field(default_factory=dict)
    # Bytes in use by place and kind after the last piece.
    held: dict[tuple[int, str], int] = field(default_factory=dict)

    def take(self, samples: Samples) -> None:
        """Take samples of memory in use (MEMORY_IN_USE); other event types are not looked at."""
        kinds = [key for key in ON_DEVICE if key in samples.columns]
        if not kinds:
            return
        for (number,), of_place in samples.data.group_by("place", maintain_order=True):
            place = int(str(number))
            before = {key: self.held.get((place, key), 0) for key in ON_DEVICE}
            filled = of_place.select("time", *(pl.col(k).forward_fill().fill_null(before[k]) for k in kinds))
            still = sum(before[key] for key in ON_DEVICE if key not in kinds)
            total = filled.select(total=pl.sum_horizontal(kinds) + still)["total"]
            at = int(total.arg_max() or 0)
            # The first of equal peaks, in whatever pieces they come.
            if place not in self.peaks or total[at] > self.peaks[place][0]:
                self.peaks[place] = int(total[at]), int(filled["time"][at])
            self.held |= {(place, key): int(filled[key][-1]) for key in kinds}

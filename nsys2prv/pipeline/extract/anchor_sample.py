"""The anchors of one report, thinned out: operations of several ranks, by which their clocks are compared."""

from __future__ import annotations

import polars as pl

from nsys2prv.model.frames import ANCHOR
from nsys2prv.model.schemas import to_schema

# Highest number of collectives of one communicator, and of messages of each direction, in a report's sample.
MOST_ANCHORS_KEPT = 4096

_MESSAGE = pl.col("kind").is_in(["send", "recv"])


class AnchorSample:
    """A bounded sample of anchors, by a rule that picks the same operations in all reports.

    It does not depend on the families and times that are translated, nor on slices.
    """

    def __init__(self) -> None:
        self._rows: dict[str, pl.DataFrame] = {}

    def add(self, family: str, anchors: pl.DataFrame) -> None:
        """Take in anchors (columns of ANCHOR) that a family found in one slice. A family finds messages all at once."""
        known = to_schema(anchors, ANCHOR)
        known = known.drop_nulls(["communicator", "sequence", "start", "end"])
        every = pl.concat([self._rows[family], known]) if family in self._rows else known
        # The last operation of a communicator gives their number. Dropping the others early leaves the same sample.
        last = pl.col("sequence") == pl.col("sequence").max().over("communicator")
        self._rows[family] = every.filter(_MESSAGE | _in_sample() | last)

    def rows(self) -> pl.DataFrame:
        """Return the sample: columns of ANCHOR."""
        every = pl.concat([pl.DataFrame(schema=ANCHOR), *self._rows.values()])
        return every.filter(_in_sample())


def _in_sample() -> pl.Expr:
    """Choose every 2^n-th collective of a communicator, and one in 2^n messages.

    A sample with a larger n is part of the one with a smaller n.
    """
    length = (
        pl.when(_MESSAGE).then(pl.len().over("kind")).otherwise((pl.col("sequence").max() + 1).over("communicator"))
    )
    step = pl.lit(2).pow((length / MOST_ANCHORS_KEPT).log(2).ceil().clip(lower_bound=0)).cast(pl.UInt64)
    # A pair of ranks uses many tags, each with few messages: their sequences alone cannot thin them out.
    key = pl.when(_MESSAGE).then(pl.struct("communicator", "sequence").hash(0)).otherwise(pl.col("sequence"))
    return key.cast(pl.UInt64) % step == 0

"""The samples of a place that differ from the ones before, and the first and last sample of each metric."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.model.frames import SAMPLE

Flags = npt.NDArray[np.bool_]
_INDEX = list(SAMPLE)


class Changes(NamedTuple):
    """Samples (SAMPLE and a column a metric) with what changed in them.

    `changed[column]`: true where a metric has another value than before; `any_changed`: where one of them has; `edge`:
    rows with the first sample of a metric, or the last one where no samples follow. `latest`: one row, the last value
    of each metric.
    """

    samples: pl.DataFrame
    changed: dict[str, Flags]
    any_changed: Flags
    edge: Flags
    latest: pl.DataFrame

    def points(self) -> pl.DataFrame:
        """Return the rows with changed values, which are no edges: null where a metric is the same."""
        return self._changed_rows(self.any_changed & ~self.edge)

    def edges(self) -> pl.DataFrame:
        """Return a row for each metric in the edges: place, time, column, value, changed."""
        columns = list(self.changed)
        rows = self.samples.filter(pl.Series(self.edge)).select(*_INDEX, *columns)
        moved = self._changed_rows(self.edge)
        long = rows.unpivot(columns, index=["place", "time"], variable_name="column", value_name="value")
        other = moved.unpivot(columns, index=["place", "time"], variable_name="column", value_name="moved")
        both = pl.concat([long, other.select(changed=pl.col("moved").is_not_null())], how="horizontal")
        return both.drop_nulls("value")

    def chosen(self, keep: Flags) -> Changes:
        """Return some of the rows."""
        changed = {c: flags[keep] for c, flags in self.changed.items()}
        samples = self.samples.filter(pl.Series(keep))
        return Changes(samples, changed, self.any_changed[keep], self.edge[keep], self.latest)

    def since(self, row: int) -> Changes:
        """Return the rows from `row` on."""
        changed = {c: flags[row:] for c, flags in self.changed.items()}
        return Changes(self.samples.slice(row), changed, self.any_changed[row:], self.edge[row:], self.latest)

    def behind(self, earlier: Changes) -> Changes:
        """Return rows from before, then these. The earlier ones may lack metrics."""
        none = np.zeros(earlier.samples.height, dtype=np.bool_)
        return Changes(
            pl.concat([earlier.samples, self.samples], how="diagonal"),
            {c: np.append(earlier.changed.get(c, none), flags) for c, flags in self.changed.items()},
            np.append(earlier.any_changed, self.any_changed),
            np.append(earlier.edge, self.edge),
            self.latest,
        )

    def lasts(self) -> Flags:
        """Return True for rows with the last sample of a metric."""
        found = np.zeros(self.samples.height, dtype=np.bool_)
        for c in self.changed:
            found[sampled_at(self.samples[c])[-1:]] = True
        return found

    def _changed_rows(self, keep: Flags) -> pl.DataFrame:
        """Return some of the rows; a metric is null where it is the same as before."""
        rows = self.samples.filter(pl.Series(keep))
        none = pl.Series([None], dtype=pl.Int64)
        own = {c: rows[c].zip_with(pl.Series(flags[keep]), none) for c, flags in self.changed.items()}
        return pl.DataFrame({**{c: rows[c] for c in _INDEX}, **own})


def changes_of(samples: pl.DataFrame, columns: Sequence[str], begun: Collection[str]) -> Changes:
    """Find what changes in the samples of one place, in order of time. Only first samples are edges.

    `columns`: the metrics; `begun`: those that had samples before, whose first sample is no edge.
    """
    any_changed, edge = np.zeros((2, samples.height), dtype=np.bool_)
    changed: dict[str, Flags] = {}
    latest: dict[str, pl.Series] = {c: samples[c].tail(1) for c in _INDEX}
    for c in columns:
        at = sampled_at(samples[c])
        values = (samples[c] if len(at) == samples.height else samples[c].drop_nulls()).to_numpy()
        flags = changed[c] = np.zeros(samples.height, dtype=np.bool_)
        latest[c] = samples[c].slice(int(at[-1]), 1) if len(at) else samples[c].tail(1)
        if not len(at):
            continue
        flags[at[0]] = True
        flags[at[1:]] = values[1:] != values[:-1]
        any_changed |= flags
        edge[at[0]] |= c not in begun
    return Changes(samples, changed, any_changed, edge, pl.DataFrame(latest))


def sampled_at(values: pl.Series) -> npt.NDArray[np.int64]:
    """Return the rows that have a value."""
    return np.arange(len(values)) if not values.null_count() else np.flatnonzero(values.is_not_null().to_numpy())

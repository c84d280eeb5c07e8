"""Normal equations of samples: sums of products, which add up over pieces of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nsys2prv.analysis.metrics.nnls import Floats, nnls


@dataclass
class Normal:
    """Normal equations of some samples; they add up.

    A has the shares (a row a sample, a column a class), v the values times the clock, and c the clock times the number
    of columns that run at once. `ata` is A'A, `atv` A'v, `atc` A'c, and `crowd` A' times the squares of A. `periods`
    has the sum of each column of A, its time in periods, and `held` is A' times the plain values. `vtv` is v'v, `total`
    the sum of v, `count` the number of samples.
    """

    ata: Floats
    atv: Floats
    atc: Floats
    crowd: Floats
    periods: Floats
    held: Floats
    vtv: float = 0.0
    total: float = 0.0
    count: int = 0

    @classmethod
    def empty(cls, width: int) -> Normal:
        """Return the equations of no samples."""
        square, line = np.zeros((2, width, width)), np.zeros((4, width))
        return cls(square[0], line[0], line[1], square[1], line[2], line[3])

    def add(self, shares: Floats, values: Floats, clock: Floats, running: Floats) -> None:
        """Add samples: a row of shares, a value, the clock, and how many columns ran at once on average.

        Each of several kernels at once has the whole clock, not a part of it.
        """
        self.held += shares.T @ values
        values = values * clock
        self.ata += shares.T @ shares
        self.atv += shares.T @ values
        self.atc += shares.T @ (clock * running)
        self.crowd += shares.T @ shares**2
        self.periods += shares.sum(axis=0)
        self.vtv += float(values @ values)
        self.total += float(values.sum())
        self.count += len(values)

    def plus(self, other: Normal, sign: int = 1) -> Normal:
        """Return the equations of both, or (-1) of these samples without the others."""
        return Normal(
            self.ata + sign * other.ata,
            self.atv + sign * other.atv,
            self.atc + sign * other.atc,
            self.crowd + sign * other.crowd,
            self.periods + sign * other.periods,
            self.held + sign * other.held,
            self.vtv + sign * other.vtv,
            self.total + sign * other.total,
            self.count + sign * other.count,
        )

    def times(self, to: Floats) -> Normal:
        """Return the equations of other columns: each the sum of the columns that have a 1 in a column of `to`."""
        return Normal(
            to.T @ self.ata @ to,
            to.T @ self.atv,
            to.T @ self.atc,
            to.T @ self.crowd @ to,
            to.T @ self.periods,
            to.T @ self.held,
            self.vtv,
            self.total,
            self.count,
        )

    def grouped(self, groups: Sequence[Sequence[int]]) -> Normal:
        """Add up the columns of each group, and leave out columns of no group."""
        to = np.zeros((len(self.atv), len(groups)))
        for n, members in enumerate(groups):
            to[list(members), n] = 1.0
        return self.times(to)

    def filled(self, members: Sequence[int]) -> float:
        """Return the part of a sample that columns fill together, averaged over their time."""
        at = list(members)
        return float(self.ata[np.ix_(at, at)].sum() / self.periods[at].sum())

    def weakest(self) -> tuple[float, list[int]]:
        """Return the condition number of the columns, scaled to equal length, and the two least told apart."""
        scale = 1 / np.sqrt(np.diag(self.ata))
        values, vectors = np.linalg.eigh(self.ata * scale[:, None] * scale[None, :])
        number = float(np.sqrt(values[-1] / values[0])) if values[0] > 0 else np.inf
        return number, sorted(np.argsort(-np.abs(vectors[:, 0]))[:2].tolist())

    def solution(self) -> Floats:
        """Return the means of the columns: non-negative least squares."""
        return nnls(self.ata, self.atv)

    def clocks(self, low: float, high: float) -> Floats:
        """Return the clock while each column runs: least squares, from half the least sample to the largest."""
        found: Floats = np.clip(np.linalg.lstsq(self.ata, self.atc, rcond=None)[0], low / 2, high).astype(np.float64)
        return found

    def residual(self, x: Floats) -> float:
        """Return the sum of squared residuals of a solution."""
        return max(self.vtv - 2 * float(x @ self.atv) + float(x @ self.ata @ x), 0.0)

    def spread(self) -> float:
        """Return the sum of squared deviations from the mean."""
        return max(self.vtv - self.total**2 / self.count, 0.0) if self.count else 0.0

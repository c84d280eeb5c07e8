"""Non-negative least squares on normal equations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def nnls(ata: Floats, atb: Floats) -> Floats:
    """Return the x >= 0 that minimizes |A x - b|, from A'A and A'b.

    The active set method of Lawson and Hanson (Solving Least Squares Problems, 1974, chapter 23) in the form of Bro and
    de Jong (J. Chemometrics 11, 1997), which needs the normal equations only.
    """
    count = len(atb)
    x = np.zeros(count)
    free = np.zeros(count, dtype=bool)
    tolerance = 1e-10 * max(float(np.abs(atb).max(initial=0.0)), 1e-300)
    # Each round frees one more unknown or ends; a bound on the rounds keeps rounding from going in circles.
    for _ in range(10 * count + 10):
        gradient = atb - ata @ x
        gradient[free] = -np.inf
        if free.all() or gradient.max() <= tolerance:
            break
        free[int(np.argmax(gradient))] = True
        x = _feasible(ata, atb, x, free)
    return x


def _feasible(ata: Floats, atb: Floats, x: Floats, free: npt.NDArray[np.bool_]) -> Floats:
    """Return least squares over the free unknowns; unknowns that would turn negative are bound to 0 again."""
    while True:
        best = np.zeros_like(x)
        best[free] = np.linalg.lstsq(ata[np.ix_(free, free)], atb[free], rcond=None)[0]
        negative = free & (best <= 0)
        if not negative.any():
            return best
        step = np.min(x[negative] / (x[negative] - best[negative] + 1e-300))
        x = x + step * (best - x)
        free &= ~(negative & (x <= 1e-12 * max(float(x.max(initial=0.0)), 1e-300)))
        x[~free] = 0.0

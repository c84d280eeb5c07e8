"""Time and memory of fitting the clocks of a large run.

Usage: `python benchmarks/clocks.py [HOSTS RANKS_PER_HOST COLLECTIVES]`.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "run"))

from synthetic import Clocks, aligned, run


def main() -> None:
    """Make a run with skewed and drifting hosts, fit it, and compare with what was done to it."""
    hosts, ranks, collectives = (int(a) for a in sys.argv[1:4]) if len(sys.argv) == 4 else (128, 8, 1000)
    dice = np.random.default_rng(1)
    clocks = [Clocks()] + [Clocks(int(dice.normal(0, 2e6)), float(dice.normal(0, 20))) for _ in range(hosts - 1)]
    summaries = run(clocks, ranks, collectives, span=20.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    found = aligned(summaries)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    offsets = [abs(r.offset_ns + clocks[n // ranks].ahead) for n, r in enumerate(found.reports)]
    slopes = [abs(r.slope_ppm + clocks[n // ranks].ppm) for n, r in enumerate(found.reports)]
    residual = max(r.residual_median_ns or 0 for r in found.reports)
    print(f"{hosts * ranks} ranks on {hosts} hosts, {collectives} collectives: {seconds:.2f} s")
    print(f"peak memory {after / 1e3:.0f} MB ({before / 1e3:.0f} MB of it before the fit, with the anchors)")
    print(f"worst offset {max(offsets) / 1e3:.1f} us, slope {max(slopes):.2f} ppm, residual {residual / 1e3:.1f} us")
    was, now = (sum(getattr(r, f"violations_{when}") for r in found.reports) for when in ("before", "after"))
    print(f"violations {was} before, {now} after")
    print(*found.warnings, sep="\n")


if __name__ == "__main__":
    main()

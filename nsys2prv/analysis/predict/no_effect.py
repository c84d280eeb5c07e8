"""Why a change has no effect on a run: it leaves all lengths, or what it shortens holds up nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nsys2prv.analysis.graph.host_delays import LEAST_DELAY_NS, LEAST_SHARE_OF_ITERATION, LEAST_SHARE_OF_USUAL
from nsys2prv.analysis.predict.change import Change
from nsys2prv.analysis.predict.changed_lengths import changed_lengths
from nsys2prv.analysis.predict.model import Model
from nsys2prv.analysis.predict.replay import measured_lengths

_NO_DELAY = (
    f"no host work takes longer than usual at its place by {LEAST_DELAY_NS / 10**6:g} ms, "
    f"{100 * LEAST_SHARE_OF_USUAL:.0f} % of the usual and {100 * LEAST_SHARE_OF_ITERATION:.0f} % of an iteration. "
    "`host=0` leaves out all host work"
)
# By target, why a run has nothing to change.
_REASONS = {
    "transfer": "the run has no collective or message whose time could change",
    "launch": "no launch waits, and no launching call takes time",
    "host": "hosts do not work between their calls",
    "delay": _NO_DELAY,
    "imbalance": "the ranks and GPUs compute equally long, or there is a single one",
}


class Changed(NamedTuple):
    """Number of the pieces of work that changes alter in all that was recorded, and by how much together (ns)."""

    pieces: int
    ns: int


def changed_by(model: Model, changes: Sequence[Change]) -> Changed:
    """Return what changes alter together, longer and shorter. Raises UsageError for a target that the run lacks."""
    measured = lengths = measured_lengths(model.graph)
    for change in changes:
        lengths = changed_lengths(model, lengths, change)
    pairs = zip(measured, lengths, strict=True)
    apart = np.concatenate([np.abs(then.astype(np.int64) - now.astype(np.int64)) for now, then in pairs])
    return Changed(int(np.count_nonzero(apart)), int(apart.sum()))


def why_nothing_changes(change: Change) -> str:
    """Return why a change leaves all lengths of a run."""
    if change.factor == 1 and not change.as_median:
        return "a factor of 1 leaves all times"
    if change.as_median:
        return f"{change.target} computes as long as the median rank"
    return _REASONS.get(change.target, "its kernels take no time")

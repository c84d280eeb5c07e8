"""The name of a run, by its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from nsys2prv.report.discover import without_ending

# Words for what a report is of: they tell no run from another.
OF_ANY_RUN = frozenset(
    ("gpu", "host", "local_rank", "node", "nsys", "proc", "process", "profile", "rank", "report", "task")
)


def run_name(inputs: Sequence[Path]) -> str:
    """Name a run after its folder or report; of several after what their names begin with, or the folder of the first.

    What they begin with is never cut inside a number: `gpt10` and `gpt11` are `gpt`. A word such as `rank` is no name.
    """
    names = [without_ending(path).resolve().name for path in inputs or [Path()]]
    pairs = zip(min(names), max(names), strict=False)
    same = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if any(name[len(same) : len(same) + 1].isdigit() for name in names):
        same = same.rstrip("0123456789")
    if len(names) > 1:
        same = same.rstrip("._-")
        same = inputs[0].absolute().parent.resolve().name if same.lower() in {"", *OF_ANY_RUN} else same
    return same or "run"

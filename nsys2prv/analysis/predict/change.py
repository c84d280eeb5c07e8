"""A change as `--set` writes it: whose times are multiplied by what."""

from __future__ import annotations

import re
from typing import NamedTuple

from nsys2prv.errors import UsageError
from nsys2prv.model.words import short

ADVICE = (
    "changes are transfer*F, launch*F, host*F, imbalance*F, delay*F, `rank N*F`, `rank N=median`, and NAME*F for "
    "kernels by family, class, name or phase; TARGET=0 is TARGET*0"
)
# The target of a change of the hosts' work.
HOST = "host"


class Change(NamedTuple):
    """A change that `text` writes: the times of a target are multiplied by a factor.

    `target`: `transfer`, `launch`, `host`, `imbalance`, `delay`, `rank N`, or a family, class, name or phase of
    kernels. `rank`: the rank of `rank N`, else None; where `as_median`, its times become those of the median rank.
    """

    text: str
    target: str
    factor: float = 1.0
    rank: int | None = None
    as_median: bool = False


def parse_change(text: str) -> Change:
    """Parse a change. Only a run can tell if it has the target. Raises UsageError if the text cannot be read."""
    if found := re.fullmatch(r"(rank\s+(\d+))\s*=\s*median", text.strip()):
        return Change(text, found[1], rank=int(found[2]), as_median=True)
    found = re.fullmatch(r"(.+?)\s*(?:\*\s*(\d+\.?\d*|\.\d+)|=\s*0)", text.strip())
    if not found:
        meant = re.fullmatch(r"(.+?)\s*=\s*(\d+\.?\d*|\.\d+)", text.strip())
        hint = f", did you mean '{short(meant[1])}*{meant[2]}'?" if meant else ""
        if divided := re.fullmatch(r"(.+?)\s*/\s*(\d*[1-9]\d*)", text.strip()):
            hint = f", did you mean '{short(divided[1])}*{1 / int(divided[2]):.3g}'?"
        if re.fullmatch(r"[^*=/]*[^*=/\d.\s]\s*", text):
            hint = f", such as '{short(text.strip())}*0.5' for half of its time"
        raise UsageError(
            f"--set {short(text)!r}: not TARGET*F with a factor F of 0 or more, nor TARGET=0{hint}; {ADVICE}"
        )
    target = found[1].strip()
    of_rank = re.fullmatch(r"rank\s+(\d+)", target)
    return Change(text, target, float(found[2] or 0), int(of_rank[1]) if of_rank else None)

"""The circumstances of a recording: when, by which nsys, on which GPUs, in which reports."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from nsys2prv.run.plan import Plan


class Recording(NamedTuple):
    """The circumstances of a recording, as its reports say them.

    `began`: UTC of the earliest session (ns since 1970; None: not known); `nsys`: versions of nsys; `gpus`: models;
    each once, sorted.
    """

    reports: tuple[Path, ...] = ()
    began: int | None = None
    nsys: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()


def recording_of(plan: Plan) -> Recording:
    """Return the circumstances of the recording of a run."""
    identities = [summary.identity for summary in plan.summaries]
    return Recording(
        reports=tuple(summary.path for summary in plan.summaries),
        began=min((i.utc_epoch_ns for i in identities if i.utc_epoch_ns is not None), default=None),
        nsys=tuple(sorted({i.nsys_version for i in identities} - {""})),
        gpus=tuple(sorted({gpu.name for i in identities for gpu in i.gpus} - {""})),
    )

"""Samples of what hosts do: where to see them if the reports hold any, else how to record them."""

from __future__ import annotations

from nsys2prv.analysis.frames import Run
from nsys2prv.families.host.cpu_samples import FAMILY as CPU_SAMPLES
from nsys2prv.families.nvtx.python_samples import FAMILY as PYTHON_SAMPLES


def see_samples(run: Run) -> str:
    """Return the words on samples of the functions of hosts: how to draw those of the reports, else to record some."""
    held = [family.name for family in (CPU_SAMPLES, PYTHON_SAMPLES) if family.name in run.recorded_families]
    if held:
        return f"the reports hold samples (nsys2prv translate RUN --also {','.join(held)})"
    return "record CPU samples or Python stacks (nsys profile --sample=process-tree --python-sampling=true)"

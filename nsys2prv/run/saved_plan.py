"""A plan in a file, for workers to read."""

from __future__ import annotations

import pickle
from pathlib import Path

from nsys2prv.errors import OutputError
from nsys2prv.model.event_types import NCCL_COMMUNICATOR
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Summary

# What workers look at of a report; of its labels they only want communicators.
_LOOKED_AT = ("slots", "spills", "ends", "members", "labels")


def save_plan(plan: Plan, path: Path) -> None:
    """Write what workers need of a plan where they can read it. Raises OutputError."""
    try:
        path.write_bytes(pickle.dumps(_for_workers(plan)))
    except OSError as error:
        cause = f"cannot write intermediate files ({error.strerror}); free space there"
        raise OutputError(f"{path.parent}: {cause}") from None


def _for_workers(plan: Plan) -> Plan:
    """The plan without what only planning looks at: each worker would hold 0.15 MB more for every report."""
    objects = plan.objects._replace(unchosen=())
    if plan.bundles:
        # Points, and all that tells of them, are reports' own no more.
        numbering = plan.numbering._replace(values=(), in_text=())
        objects = objects._replace(row_of=())
        return plan._replace(summaries=(), tasks=(), clocks=(), numbering=numbering, objects=objects)
    first = plan.summaries[0]
    # One of each, which all reports share when they are read again.
    unseen = {field: getattr(first, field) for field in Summary._fields if field not in _LOOKED_AT}
    labels = [{k: texts for k, texts in s.labels.items() if k == NCCL_COMMUNICATOR.key} for s in plan.summaries]
    seen = (s._replace(**unseen, labels=own) for s, own in zip(plan.summaries, labels, strict=True))
    return plan._replace(summaries=tuple(seen), tasks=(), objects=objects)


_plans: dict[tuple[Path, int], Plan] = {}


def plan_at(saved: Path) -> Plan:
    """A plan that was saved; a worker reads it once, and outlives the translation where it is Dask's."""
    key = saved, saved.stat().st_mtime_ns
    if key not in _plans:
        _plans.clear()
        _plans[key] = pickle.loads(saved.read_bytes())
    return _plans[key]

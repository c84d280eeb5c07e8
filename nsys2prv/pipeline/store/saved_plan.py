"""A plan in a file, for workers to read."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from nsys2prv.errors import not_written
from nsys2prv.run.matching.communicators import COMMUNICATOR_BESIDE
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Summary

# Fields of a summary that workers read; of its labels they read only communicators.
_FIELDS_READ = ("slots", "spills", "members", "labels")


def for_workers(plan: Plan) -> Plan:
    """Return the plan without data that only planning reads: it would take 0.15 MB a report in each worker."""
    first = plan.summaries[0]
    # The first report's value of each field: reports share it, which saves memory in workers.
    unread = {field: getattr(first, field) for field in Summary._fields if field not in _FIELDS_READ}
    communicators = frozenset(COMMUNICATOR_BESIDE.values())
    labels = [{k: texts for k, texts in s.labels.items() if k in communicators} for s in plan.summaries]
    read = (s._replace(**unread, labels=own) for s, own in zip(plan.summaries, labels, strict=True))
    objects = plan.objects._replace(unchosen=(), of_profiler=())
    return plan._replace(summaries=tuple(read), hosts=(), tasks=(), objects=objects)


def without_reports(plan: Plan) -> Plan:
    """Return the plan without its reports, whose points are merged into bundles."""
    numbering = plan.numbering._replace(values=(), in_text=())
    objects = plan.objects._replace(unchosen=(), of_profiler=(), row_of=())
    return plan._replace(summaries=(), tasks=(), clocks=(), numbering=numbering, objects=objects)


def save(value: object, path: Path) -> None:
    """Write a plan, or a value that holds one, where workers can read it. Raises OutputError."""
    try:
        path.write_bytes(pickle.dumps(value))
    except OSError as error:
        raise not_written(path.parent, error) from None


_kept: dict[tuple[Path, int], Any] = {}


def read_saved(path: Path) -> Any:
    """Read a saved value. A process reads each file once, and keeps the value of the last one.

    A Dask worker outlives the translation: the time of the file tells a later file of the same path from it.
    """
    key = path, path.stat().st_mtime_ns
    if key not in _kept:
        _kept.clear()
        _kept[key] = pickle.loads(path.read_bytes())
    return _kept[key]

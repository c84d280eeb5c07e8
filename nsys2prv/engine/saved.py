"""A plan in a file, for workers to read."""

from __future__ import annotations

import pickle
from pathlib import Path

from nsys2prv.engine.plan import Plan


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan where workers can read it."""
    path.write_bytes(pickle.dumps(plan))


_plans: dict[tuple[Path, int], Plan] = {}


def plan_at(saved: Path) -> Plan:
    """A plan that was saved; a worker reads it once, and outlives the translation where it is Dask's."""
    key = saved, saved.stat().st_mtime_ns
    if key not in _plans:
        _plans.clear()
        _plans[key] = pickle.loads(saved.read_bytes())
    return _plans[key]

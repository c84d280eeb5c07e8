"""Where memory operations come from and go to."""

from __future__ import annotations

import pytest

from nsys2prv.model.event_types import MEMORY_DESTINATION, MEMORY_SOURCE


# Counts by SELECT srcKind, count(*) ... of the reports; memsets have a destination only.
@pytest.mark.parametrize(
    ("name", "source", "destination"),
    [
        ("single/saxpy.sqlite", {"Pageable": 20, "Device": 1}, {"Device": 40, "Pageable": 1}),
        ("mpi-halo", {"Pinned": 48, "Device": 48}, {"Device": 52, "Pinned": 48}),
        # Migrations of unified memory: the profiler does not know the kinds.
        ("single/unified-memory.sqlite", {}, {}),
    ],
)
def test_kinds_of_source_and_destination(translated, name, source, destination):
    _, trace = translated(name, "memory")
    for kind, expected in ((MEMORY_SOURCE, source), (MEMORY_DESTINATION, destination)):
        assert dict(trace.intervals(kind.number).group_by("label").len().iter_rows()) == expected

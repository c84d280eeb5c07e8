"""Files of Nsight Compute beside the reports of a run, read before the run is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsys2prv.run.options import RunOptions

if TYPE_CHECKING:
    from nsys2prv.report.ncu.profile import Profile


def read_profiles(options: RunOptions) -> tuple[Profile, ...]:
    """Read the files of `options.ncu`. Raises ReportError."""
    if not options.ncu:
        return ()
    # Loaded when needed: most runs have no such file.
    from nsys2prv.report.ncu.profile import read_profile

    return tuple(map(read_profile, options.ncu))

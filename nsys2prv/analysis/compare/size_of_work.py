"""Sizes of the work of two runs: with another input as many launches have larger or smaller grids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nsys2prv.analysis.compare.work_of_iterations import COUNT_ERROR, FEWEST_EQUAL, LaunchedWork
from nsys2prv.model.units import factor_text
from nsys2prv.model.words import short

# Sizes differ from this part on: inputs of several lengths move the mean of a few iterations by less.
LEAST_DIFFERENCE = 0.05
# The work is of another size if kernels with this part of the launches that come equally often have larger grids, or
# smaller ones. A change of the program, such as another block size or a fused kernel, concerns a few.
LEAST_SHARE = 0.5
# They also have this part of all launches: a few that come equally often by chance say nothing of the rest. It is less,
# since libraries choose other kernels for other sizes.
LEAST_SHARE_OF_ALL = 0.25
LONGEST_NAME = 40


class OtherSize(NamedTuple):
    """Kernels or collectives of both runs that come equally often, and how many of them are larger or smaller in b.

    `differing`: how many of `every`; `name`: that with most time, and `times` its size in b, in sizes in a.
    """

    every: int
    differing: int
    name: str
    times: float

    @property
    def larger(self) -> bool:
        """Return whether they are larger in b."""
        return self.times > 1


def other_grids(a: Mapping[str, LaunchedWork], b: Mapping[str, LaunchedWork]) -> OtherSize | None:
    """Return the kernels that have other grids in as many launches, None if these are few (see LEAST_SHARE)."""
    times = _times(a, b)
    equal = sum(a[name].launches for name in times)
    every = max(sum(one.launches for one in run.values()) for run in (a, b))
    least = max(LEAST_SHARE * equal, LEAST_SHARE_OF_ALL * every)
    for names in _apart(times):
        if len(names) >= FEWEST_EQUAL and sum(a[name].launches for name in names) >= least:
            return _largest(times, names, a)
    return None


def other_bytes(a: Mapping[str, LaunchedWork], b: Mapping[str, LaunchedWork]) -> OtherSize | None:
    """Return the collectives that move more or fewer bytes in as many operations, None if none does."""
    times = _times(a, b)
    return next((_largest(times, names, a) for names in _apart(times) if names), None)


def _times(a: Mapping[str, LaunchedWork], b: Mapping[str, LaunchedWork]) -> dict[str, float]:
    """Return the size in b, in sizes in a, of each name that comes equally often and whose sizes are known."""
    known = (name for name in sorted(a.keys() & b.keys()) if a[name].size and b[name].size)
    equal = (name for name in known if abs(b[name].launches / a[name].launches - 1) <= COUNT_ERROR)
    return {name: b[name].size / b[name].launches / (a[name].size / a[name].launches) for name in equal}


def _apart(times: Mapping[str, float]) -> Iterator[list[str]]:
    """Yield the names of what is larger in b, then of what is smaller."""
    yield [name for name, one in times.items() if one > 1 + LEAST_DIFFERENCE]
    yield [name for name, one in times.items() if one < 1 / (1 + LEAST_DIFFERENCE)]


def _largest(times: Mapping[str, float], names: Sequence[str], a: Mapping[str, LaunchedWork]) -> OtherSize:
    most = max(names, key=lambda name: a[name].ns)
    return OtherSize(len(times), len(names), most, times[most])


def of_other_input(grids: OtherSize | None, volume: OtherSize | None) -> str:
    """Return what iterations of b have more or less to do with in as many launches, as sentences; nothing if nothing.

    Other bytes alone may be a change of the program, such as gradients of another type. `grids`, `volume`: see
    other_grids and other_bytes.
    """
    text = ""
    if grids:
        larger = "larger" if grids.larger else "smaller"
        kernel = f"`{short(grids.name, LONGEST_NAME)}`: {_times_the(grids.times, 'the threads')}"
        text = (
            f" The work is of another size: {grids.differing} of the {grids.every} kernels that come equally often "
            f"have {larger} grids in B ({kernel}), as with another batch or input, or a cache that only one run uses. "
            "With another input, times tell no change of speed."
        )
    if volume:
        number = f"{volume.differing} kinds of collectives move" if volume.differing > 1 else f"{volume.name} moves"
        of_which = f"{volume.name}: " if volume.differing > 1 else ""
        text += (
            f" {number} {'more' if volume.larger else 'fewer'} bytes in as many operations in B "
            f"({of_which}{_times_the(volume.times, 'as many')})."
        )
    return text


def _times_the(times: float, what: str) -> str:
    """Return how many times `what` something is, as a part of it where it is less than half."""
    if 2 * times > 1:
        return f"{factor_text(times)} times {what}"
    return f"1/{factor_text(1 / times)} {'of ' * what.startswith('the')}{what}"

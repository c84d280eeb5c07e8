"""Room for the frames of calls."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from nsys2prv.cli.main import main
from nsys2prv.engine.running.room import CLAIMED, with_room

ROUNDS = 200
DEPTHS = 400


def _at(depth: int, function: Callable[[], int]) -> int:
    return _at(depth - 1, function) if depth else function()


def _faults() -> int:
    """Page faults of a loop that makes small calls."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(ROUNDS):
        _at(3, lambda: 0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _depths_that_fault(function: Callable[[], int]) -> int:
    return sum(_at(depth, function) >= ROUNDS for depth in range(DEPTHS))


def test_no_depth_of_calls_maps_memory_in_every_round() -> None:
    if not _depths_that_fault(_faults):
        pytest.skip("this Python keeps the memory of frames")
    assert not _depths_that_fault(with_room(_faults))


def test_the_command_line_has_room() -> None:
    assert main.__code__.co_stacksize == CLAIMED


def test_the_function_is_the_same_otherwise() -> None:
    @with_room
    def named(first: int, *, second: int) -> int:
        """Text."""
        return first - second

    assert (named(3, second=1), named.__name__, named.__doc__) == (2, "named", "Text.")

"""Room for the frames of Python's calls, where many small ones are made."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")

# Words that the frame of such a function claims of the stack; it touches none of them.
CLAIMED = 1 << 13


def with_room(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """The function, called so that what it calls has 64 KB for frames.

    CPython takes memory for frames in pieces of 16 KB, and gives one back to the system with the last frame in it:
    a loop that calls across the border of two pieces maps, clears and unmaps memory in each round. Where the border
    lies is chance; imports, which nest deep, met it 4,700 times before a short report was begun. For a frame larger
    than a piece CPython takes more than it needs, and what is called from there shares the rest.
    """

    def roomy(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        return function(*args, **kwargs)

    roomy.__code__ = roomy.__code__.replace(co_stacksize=CLAIMED)
    return wraps(function)(roomy)

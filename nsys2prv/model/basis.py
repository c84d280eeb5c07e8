"""Words for what a figure is counted over: the mean iteration, or all of a window that has no iterations."""

from __future__ import annotations


def basis(of_iterations: bool) -> str:
    """Name what a figure is counted over: `an iteration` or `the window`."""
    return "an iteration" if of_iterations else "the window"


def after_figure(of_iterations: bool) -> str:
    """Return the words behind a figure, as in `3.2 ms an iteration` or `3.2 ms in the window`."""
    return "an iteration" if of_iterations else "in the window"

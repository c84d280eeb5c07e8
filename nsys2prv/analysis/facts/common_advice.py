"""Advice on one cause that several findings of a run may give: the worst of them gives it, the others refer to it."""

from __future__ import annotations

from typing import NamedTuple


class CommonAdvice(NamedTuple):
    """The part of a finding's advice that is on a cause which other findings may have, too.

    `cause`: its name; `text`: that part; `again`: what to say in its place where it has been said.
    """

    cause: str
    text: str
    again: str


def parts_on(cause: str, text: str, again: str, advice: str) -> tuple[CommonAdvice, ...]:
    """Return the part of an advice on a cause, in a tuple; an empty one where the advice does not have that text."""
    return (CommonAdvice(cause, text, again),) if text and text in advice else ()

"""The declaration of an event type, and of a block of them that names number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

# First number of a label that is not among a type's fixed ones.
FIRST_OTHER = 1000


@dataclass(frozen=True, slots=True)
class EventType:
    """One event type. `values` are fixed in every trace; `labelled` ones are numbered by the trace, in label order.

    With both, labels that `values` knows have its numbers, and others the next ones from FIRST_OTHER on.

    With `precision` n, Paraver shows a value times 10**-n. `unique`: hardly two events have the same value of it.
    """

    key: str
    number: int
    label: str
    values: Mapping[int, str] = field(default_factory=dict, hash=False)
    labelled: bool = False
    precision: int = 0
    unique: bool = False


class TypeBlock(NamedTuple):
    """A block of event types that a trace's own names number: one a name, `step` apart, from `number` on.

    Names beyond its size are numbered from `further` on. A key of the block is `<block key>:<name>`; `label`
    has `{name}` in it.
    """

    key: str
    number: int
    step: int
    size: int
    further: int
    label: str
    labelled: bool = False

    def at(self, position: int) -> int:
        """Return the number of the event type at a position of the block, from 0 on."""
        beyond = position - self.size
        return self.number + self.step * position if beyond < 0 else self.further + self.step * beyond

    def of(self, name: str) -> str:
        """Return the key of the event type for a name."""
        return f"{self.key}:{name}"

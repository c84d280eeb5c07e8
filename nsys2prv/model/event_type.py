"""The declaration of an event type, and of a block of them that names number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

# Labels of the value 0.
END_LABEL, IDLE_LABEL = "End", "Idle"


class NumberedBy(Enum):
    """Choose how the labels of an event type get their numbers.

    ORDER: each trace counts from 1, in label order. CLASS and OPERATION: a label has its number in every trace, in the
    block of its kernel class or of its operation (`nsys2prv/model/palette.py`).
    """

    ORDER = "order"
    CLASS = "class"
    OPERATION = "operation"


@dataclass(frozen=True, slots=True)
class EventType:
    """One event type. `values` are fixed in every trace; `labelled` ones are numbered by `numbered_by`.

    With both, labels that `values` knows have its numbers.

    With `precision` n, Paraver shows a value times 10**-n. `unique`: hardly two events have the same value of it.
    `ended`: the label of 0, which ends an event.
    """

    key: str
    number: int
    label: str
    values: Mapping[int, str] = field(default_factory=dict, hash=False)
    labelled: bool = False
    precision: int = 0
    unique: bool = False
    numbered_by: NumberedBy = NumberedBy.ORDER
    ended: str = END_LABEL

    def __post_init__(self) -> None:
        if self.key in DECLARED_TYPES:
            raise ValueError(f"event type {self.key} is declared twice")
        DECLARED_TYPES[self.key] = self


DECLARED_TYPES: dict[str, EventType] = {}


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

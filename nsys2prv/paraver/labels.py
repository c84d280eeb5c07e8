"""PCF and ROW files: the labels of types, values and objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from nsys2prv.model.event_types import EVENT_TYPES
from nsys2prv.model.palette import FIRST_BLOCK, Color, color_of, table
from nsys2prv.model.public_types import PUBLIC_NUMBERS

_HEAD = """DEFAULT_OPTIONS

LEVEL               THREAD
UNITS               NANOSEC
LOOK_BACK           100
SPEED               1
FLAG_ICONS          ENABLED
NUM_OF_STATE_COLORS 1000
YMAX_SCALE          37


DEFAULT_SEMANTIC

THREAD_FUNC         State As Is

"""

# Types whose labels cfgs and other tools look for.
_FIXED = {t.number for t in EVENT_TYPES.values()} | PUBLIC_NUMBERS


class PcfType(NamedTuple):
    """One event type: number, label, labels of its values, decimal places of its values."""

    number: int
    label: str
    values: Mapping[int, str] = {}
    precision: int = 0


class RowNames(NamedTuple):
    """Names of the objects of each level, in order."""

    cpus: Sequence[str]
    nodes: Sequence[str]
    application: str
    tasks: Sequence[str]
    threads: Sequence[str]


def clean(text: str) -> str:
    """Put a label on one line, as Paraver reads it. The result is never empty: that would hide the value."""
    return re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]+", " ", text).strip() or "(no text)"


def distinct(texts: Mapping[int, str], first: AbstractSet[int] = frozenset()) -> dict[int, str]:
    """Make labels of some numbers distinct, one line each: Paraver cannot tell equal ones apart.

    Among equal labels the numbers in `first` keep their text, then one that needs no cleaning. The others get ` (2)`
    and so on.
    """
    lines = {n: clean(text) for n, text in texts.items()}
    if len(set(lines.values())) == len(lines):
        return lines
    labels: dict[int, str] = {}
    taken: set[str] = set()
    following: dict[str, int] = {}
    for n in sorted(lines, key=lambda n: (n not in first, lines[n] != texts[n], n)):
        label = lines[n]
        while label in taken:
            following[lines[n]] = following.get(lines[n], 1) + 1
            label = f"{lines[n]} ({following[lines[n]]})"
        taken.add(label)
        labels[n] = label
    return labels


def pcf_text(types: Iterable[PcfType], states: Mapping[int, str] | None = None) -> str:
    """Write the PCF file, with LF line ends: CRLF would lose every label."""
    parts = [_HEAD]
    if states:
        # The leading blank, which Paraver trims, keeps tools from taking the trace for another tracer's.
        parts.append(" STATES\n" + "".join(f"{n}    {clean(label)}\n" for n, label in states.items()) + "\n\n")
    ordered = sorted(types, key=lambda t: t.number)
    colors = "".join(f"{n}    {{{c.red},{c.green},{c.blue}}}\n" for n, c in sorted(_colors(ordered).items()))
    parts.append(f"STATES_COLOR\n{colors}\n\n")
    labels = distinct({t.number: t.label for t in ordered}, _FIXED)
    for event_type in ordered:
        lines = ["EVENT_TYPE", f"0    {event_type.number}    {labels[event_type.number]}"]
        if event_type.precision:
            lines.append(f"PRECISION {event_type.precision}")
        if event_type.values:
            # Labels of values must differ from each other. That of an event's end, 0, is no value in a legend.
            values = dict(event_type.values) | distinct({n: text for n, text in event_type.values.items() if n})
            lines += ["VALUES", *(f"{n}      {text}" for n, text in sorted(values.items()))]
        parts.append("\n".join(lines) + "\n\n\n")
    return "".join(parts)


def _colors(types: Sequence[PcfType]) -> dict[int, Color]:
    """Return the color of each value that has one. Paraver colors a number alike whatever its event type."""
    colored = {n: color for t in types for n in t.values if n >= FIRST_BLOCK and (color := color_of(n))}
    return table() | colored


def row_text(names: RowNames) -> str:
    """Write the ROW file."""
    levels = {
        "CPU": names.cpus,
        "NODE": names.nodes,
        "APPL": [names.application],
        "TASK": names.tasks,
        "THREAD": names.threads,
    }
    blocks = (
        f"LEVEL {level} SIZE {len(labels)}\n" + "".join(clean(label) + "\n" for label in labels)
        for level, labels in levels.items()
    )
    return "\n".join(blocks)

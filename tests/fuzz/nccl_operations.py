"""What NVTX rows of NCCL's operations on the device say, by plain reading of their JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

OPERATION, UNCLEAR, RANGE = "NCCL operation", "", "range"
# A payload without any of these is no operation's.
TELLING = re.compile(r"(?i)op(eration)?[^a-z0-9]*id|comm(unicator)?[^a-z0-9]*rank")
# Field -> its names in small letters without marks.
NAMES = {
    "id": {"operationid", "opid"},
    "communicator": {"commhash", "communicatorhash", "ncclcommunicatorid"},
    "rank": {"commrank", "communicatorrank"},
    "sequence": {"seqnumber", "sequencenumber", "seq"},
    "function": {"func", "function", "operation", "operationname"},
}
# Least and greatest numbers of signed and unsigned 64 bits.
SIGNED, EITHER = (-(2**63), 2**63), (-(2**63), 2**64)
PLAIN = {"id": EITHER, "communicator": EITHER, "rank": SIGNED, "sequence": SIGNED}
MESSAGES = ("Send", "Recv")
LABELS = (
    *("AllReduce", "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter"),
    *MESSAGES,
)
LIKE_LABELS = re.compile(rf"(?i)(nccl)?({'|'.join(LABELS)}|Bcast|Several)")


@dataclass(frozen=True)
class Payload:
    """Whether a payload is an operation's, a range's, or UNCLEAR; `plain`: its fields can mean one thing alone."""

    kind: str
    plain: bool = False
    fields: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A row of an operation: its process, begin and end (ns), the range's text, and its payload."""

    process: int
    begin: int
    end: int
    text: str
    payload: Payload

    @property
    def label(self) -> str | None:
        """How the operation is called; None: unclear."""
        name = self.payload.fields.get("function")
        text = self.text if name is None else str(name)
        if text.removeprefix("nccl") in LABELS:
            return text.removeprefix("nccl")
        return None if name is not None or LIKE_LABELS.match(text) else text


def read(text: str | None) -> Payload:
    """Read a payload."""
    if text is None or not TELLING.search(text):
        return Payload(RANGE)
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return Payload(UNCLEAR)
    if "\\" in text or not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        return Payload(UNCLEAR)
    fields: dict[str, object] = {}
    for name, value in pairs:
        key = next((k for k, names in NAMES.items() if re.sub("[^a-z0-9]", "", name.lower()) in names), None)
        if key in fields or isinstance(value, list):
            return Payload(UNCLEAR)
        if key is not None:
            fields[key] = value
    given = {key: value for key, value in fields.items() if value is not None}
    plain = all(_is_number(given.get(key, 0), *PLAIN[key]) for key in PLAIN)
    if plain:
        is_operation = "id" in given or {"communicator", "rank"} <= given.keys()
        return Payload(OPERATION if is_operation else RANGE, plain, given)
    return Payload(OPERATION if _is_number(given.get("id")) else UNCLEAR)


def _is_number(value: object, low: float = -float("inf"), high: float = float("inf")) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < high


def merged(rows: Sequence[Row]) -> Iterator[tuple[int, int, int, str]] | None:
    """Return process, begin, end (ns) and label of operations, each made of its rows; None where any is unclear."""
    if not all(row.payload.plain and row.label is not None for row in rows):
        return None
    told: dict[object, int] = {}
    for row in rows:
        if "id" in row.payload.fields:
            key, number = _numbered(row), _signed(row.payload.fields["id"])
            told[key] = max(number, told.get(key, number))
    groups: dict[object, list[Row]] = {}
    for n, row in enumerate(rows):
        numbered, counted = _numbered(row), _is_counted(row)
        number = row.payload.fields.get("id")
        own = _signed(number) if number is not None else told.get(numbered) if counted else None
        which = ("id", own) if own is not None else ("number", numbered) if counted else ("row", n)
        groups.setdefault((numbered[:-1], which), []).append(row)
    return (
        (of[0].process, min(r.begin for r in of), max(r.end for r in of), of[0].label or "") for of in groups.values()
    )


def _numbered(row: Row) -> tuple[object, ...]:
    communicator = row.payload.fields.get("communicator")
    return (
        row.process,
        None if communicator is None else _signed(communicator),
        row.payload.fields.get("rank"),
        row.label,
        row.payload.fields.get("sequence"),
    )


def _is_counted(row: Row) -> bool:
    """NCCL numbers operations but messages."""
    number = row.payload.fields.get("sequence")
    return isinstance(number, int) and number >= 0 and row.label not in MESSAGES


def _signed(number: object) -> int:
    assert isinstance(number, int)
    return number - 2**64 if number >= 2**63 else number

"""The colors and numbers of what is shown by kind: the same in every trace, cfg, page and table of the docs.

Compute is blue, as Paraver's users read running. GEMM and attention are the brightest colors, other kernels are muted.
All communication is orange, from brown to pale. Idle is dark. `tests/model/test_palette.py` holds the colors apart for
readers who cannot tell red from green.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from nsys2prv.model import event_types as types
from nsys2prv.model import states
from nsys2prv.model.event_type import EventType, NumberedBy


class Color(NamedTuple):
    """A color of sRGB, each part from 0 to 255."""

    red: int
    green: int
    blue: int

    @property
    def hex(self) -> str:
        """Return the color as HTML writes it: `#rrggbb`."""
        return f"#{self.red:02x}{self.green:02x}{self.blue:02x}"


class ValueBlock(NamedTuple):
    """A kind of labels: its name, its color, and the numbers that its labels have in every trace.

    The label that equals the name has the number `first`.
    """

    name: str
    color: Color
    first: int
    size: int

    def __contains__(self, number: object) -> bool:
        """Return True for the numbers of the block."""
        return isinstance(number, int) and self.first <= number < self.first + self.size


IDLE_COLOR = Color(38, 38, 46)
COMPUTE_COLOR = Color(42, 120, 214)
COMMUNICATION_COLOR = Color(255, 140, 0)
WAITING_COLOR = Color(150, 75, 0)
COPIES_COLOR = Color(204, 121, 167)
CALLS_COLOR = Color(0, 158, 115)
SYNCHRONIZATION_COLOR = Color(120, 75, 75)
# Colors of plots for what has none of its own. The color-blind can distinguish them (Okabe and Ito).
PLOT_COLORS = (
    *(Color(0, 114, 178), Color(230, 159, 0), Color(0, 158, 115), Color(204, 121, 167)),
    *(Color(213, 94, 0), Color(86, 180, 233), Color(0, 0, 0), Color(184, 168, 0)),
)
# Kinds of activity by name, as the page names them.
KIND_COLORS: Mapping[str, Color] = {
    "idle": IDLE_COLOR,
    "compute": COMPUTE_COLOR,
    "communication": COMMUNICATION_COLOR,
    "waiting": WAITING_COLOR,
    "copies": COPIES_COLOR,
    "calls": CALLS_COLOR,
    "synchronization": SYNCHRONIZATION_COLOR,
}

# From here on, numbers belong to blocks. Below are names that each trace numbers for itself, and lists of values.
FIRST_BLOCK = 1000
# GEMM has a class for each layout and tile, the other families a few.
_GEMM_SIZE, _FAMILY_SIZE, _OPERATION_SIZE, _UNKNOWN_SIZE = 4096, 64, 192, 512
# In the order of their numbers. A new family goes to the end, so that the others keep theirs.
_FAMILIES: tuple[tuple[str, Color], ...] = (
    ("GEMM", Color(64, 150, 255)),
    ("attention", Color(255, 236, 70)),
    ("flash attention", Color(255, 250, 190)),
    ("convolution", Color(45, 255, 255)),
    ("elementwise", Color(105, 120, 120)),
    ("normalization", Color(105, 165, 180)),
    ("softmax", Color(165, 180, 165)),
    ("copy/cast", Color(120, 75, 75)),
    ("reduction", Color(135, 135, 105)),
    ("optimizer", Color(60, 75, 165)),
    ("Triton", Color(0, 210, 255)),
    ("embedding", Color(45, 90, 105)),
    ("gather/scatter", Color(180, 165, 120)),
    ("loss", Color(150, 0, 90)),
    ("MoE routing", Color(210, 195, 210)),
    ("GEMV", Color(90, 120, 165)),
    ("sort/scan", Color(225, 225, 210)),
    ("state-space model", Color(0, 80, 50)),
    ("FFT", Color(120, 150, 140)),
    ("sparse matrix", Color(105, 105, 210)),
    ("dense solver", Color(150, 135, 75)),
    ("pooling", Color(80, 170, 220)),
    ("resampling", Color(120, 110, 70)),
    ("other", Color(105, 135, 150)),
    ("NCCL", COMMUNICATION_COLOR),
    ("custom all-reduce", Color(140, 70, 0)),
    ("DeepEP", Color(255, 190, 110)),
    ("HybridEP", Color(190, 95, 10)),
    ("MoE exchange", Color(255, 215, 165)),
    ("NVSHMEM", Color(95, 50, 10)),
)
# Operations of NCCL and MPI, and the words that tell them, without underscores and in lower case. The first that a name
# holds counts; the last takes all others.
_OPERATIONS: tuple[tuple[str, Color, str], ...] = (
    ("ReduceScatter", Color(190, 95, 10), "reducescatter"),
    ("AllReduce", COMMUNICATION_COLOR, "allreduce"),
    ("AllGather", Color(255, 180, 90), "allgather"),
    ("AlltoAll", Color(255, 215, 165), "alltoall"),
    ("Broadcast", Color(140, 70, 0), "broadcast|bcast"),
    ("Gather", Color(255, 195, 120), "gather"),
    ("Scatter", Color(205, 110, 30), "scatter"),
    ("Send and Recv", Color(225, 115, 0), "send ?and ?recv|sendrecv"),
    ("Send", Color(210, 120, 50), "send"),
    ("Recv", Color(235, 160, 85), "recv"),
    ("Reduce", Color(165, 85, 0), "reduce"),
    ("Barrier", Color(95, 50, 10), "barrier"),
    ("Wait", WAITING_COLOR, "wait|test|probe"),
    ("other operation", Color(120, 85, 55), ""),
)


def _blocks() -> tuple[tuple[ValueBlock, ...], ValueBlock, tuple[ValueBlock, ...]]:
    """Return the blocks of families, of unknown families, and of operations, one after the other."""
    at = FIRST_BLOCK
    made = []
    for name, color in _FAMILIES:
        made.append(ValueBlock(name, color, at, _GEMM_SIZE if name == "GEMM" else _FAMILY_SIZE))
        at += made[-1].size
    unknown = ValueBlock("", _FAMILIES[0][1], at, _UNKNOWN_SIZE)
    at += _UNKNOWN_SIZE
    operations = [
        ValueBlock(name, color, at + n * _OPERATION_SIZE, _OPERATION_SIZE)
        for n, (name, color, _) in enumerate(_OPERATIONS)
    ]
    return tuple(made), unknown, tuple(operations)


FAMILY_BLOCKS, UNKNOWN_BLOCK, OPERATION_BLOCKS = _blocks()
BEYOND = OPERATION_BLOCKS[-1].first + OPERATION_BLOCKS[-1].size
# Colors of names that each trace numbers for itself, and of families that the package does not know, in turn.
SERIES: tuple[Color, ...] = tuple(block.color for block in FAMILY_BLOCKS[:24])
# Numbers below this have a color of SERIES.
_COLORED = 100
_LONGEST_FIRST = sorted(FAMILY_BLOCKS, key=lambda block: (-len(block.name), block.name))
_NCCL = "NCCL"


def operation_block(text: str) -> ValueBlock:
    """Return the block of the operation that a name of NCCL, MPI or UCX tells."""
    plain = text.lower().replace("_", "")
    return next(
        block for block, (_, _, words) in zip(OPERATION_BLOCKS, _OPERATIONS, strict=True) if re.search(words, plain)
    )


def class_block(text: str) -> ValueBlock:
    """Return the block of a kernel class or family of classes. Classes of NCCL have that of their operation."""
    for block in _LONGEST_FIRST:
        if text == block.name or text.startswith(f"{block.name} "):
            return operation_block(text) if block.name == _NCCL != text else block
    return UNKNOWN_BLOCK


def color_of(number: int) -> Color | None:
    """Return the color that every trace gives to a value, as whatever type it comes; None: Paraver's own."""
    if number in _STATE_COLORS:
        return _STATE_COLORS[number]
    if number < FIRST_BLOCK:
        return SERIES[(number - 1) % len(SERIES)] if number < _COLORED else None
    if number in UNKNOWN_BLOCK or number >= BEYOND:
        return SERIES[number % len(SERIES)]
    return next(block.color for block in (*FAMILY_BLOCKS, *OPERATION_BLOCKS) if number in block)


_STATE_COLORS: Mapping[int, Color] = {
    states.IDLE: IDLE_COLOR,
    states.RUNNING: COMPUTE_COLOR,
    states.SYNCHRONIZING: SYNCHRONIZATION_COLOR,
    states.CUDA_CALLING: CALLS_COLOR,
    states.OS_CALLING: SERIES[6],
    states.COMMUNICATING: COMMUNICATION_COLOR,
    states.TRANSFERRING: COPIES_COLOR,
}


def table() -> dict[int, Color]:
    """Return the colors of the numbers below the blocks, which stand in every PCF."""
    return {number: color for number in range(_COLORED) if (color := color_of(number))}


# Copies by direction have one hue; memsets and what is unknown are pale.
_COPY_COLORS = {
    "Host-to-Device": COPIES_COLOR,
    "Device-to-Host": Color(145, 65, 110),
    "Device-to-Device": Color(230, 175, 210),
    "Peer-to-Peer": Color(100, 40, 75),
    "Memset": Color(245, 220, 235),
    "Unified Host-to-Device": Color(180, 95, 145),
    "Unified Device-to-Host": Color(120, 50, 90),
}
# Kinds of the critical path beside kernels, and causes of idle time.
_LATENCY, _UNEXPLAINED = Color(0, 60, 40), Color(225, 225, 210)
_PATH_COLORS = {
    "transfer": COMMUNICATION_COLOR,
    "launch latency": _LATENCY,
    "host work": CALLS_COLOR,
    "synchronization": SYNCHRONIZATION_COLOR,
    "copy": COPIES_COLOR,
    "unexplained": _UNEXPLAINED,
}
_CAUSE_COLORS = {
    "launch-starved": CALLS_COLOR,
    "dependency": COMPUTE_COLOR,
    "communication": COMMUNICATION_COLOR,
    "host synchronization": SYNCHRONIZATION_COLOR,
    "unexplained": _UNEXPLAINED,
}
_KINDS_OF_ACTIVITY = {
    types.CUDA_API: CALLS_COLOR,
    types.KERNEL: COMPUTE_COLOR,
    types.GRAPH: FAMILY_BLOCKS[0].color,
    types.NCCL_KERNEL: COMMUNICATION_COLOR,
    types.MEMORY: COPIES_COLOR,
}


def activity_colors() -> dict[int, Color]:
    """Return the colors of kinds of activity by the number of their event type."""
    return {0: IDLE_COLOR} | {event_type.number: color for event_type, color in _KINDS_OF_ACTIVITY.items()}


def value_colors(event_type: EventType) -> dict[int, Color]:
    """Return the colors of the listed values of an event type, where they are not those of `color_of`; else none."""
    if event_type == types.MEMORY:
        found = {n: _COPY_COLORS.get(name, COPIES_COLOR) for n, name in event_type.values.items()}
    elif event_type == types.NCCL_OPERATION or event_type.numbered_by == NumberedBy.OPERATION:
        found = {n: operation_block(name).color for n, name in event_type.values.items()}
    elif event_type in (types.CRITICAL_PATH, types.IDLE_CAUSE):
        colors = _PATH_COLORS if event_type == types.CRITICAL_PATH else _CAUSE_COLORS
        found = {n: colors[name] for n, name in event_type.values.items()}
    elif event_type == types.WAITING:
        found = {1: WAITING_COLOR, 2: COMMUNICATION_COLOR}
    else:
        found = {}
    return {0: IDLE_COLOR} | found if found else {}

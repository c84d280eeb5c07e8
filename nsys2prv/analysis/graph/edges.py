"""Kinds of edges of the dependency graph, and their usual lags.

A node waits for all of its predecessors. The binding one lets it happen last: its time and the usual lag of its edge
together are the latest. That edge binds.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsys2prv.analysis.graph.nodes import Nodes, numbers_to

# The kind of the edge to a node that follows no other.
NO_EDGE = -1


class EdgeKind(IntEnum):
    """Kinds of edges, with the usual lag of each in USUAL_LAG."""

    RUN = 0  # begin to end of device work
    STREAM = 1  # end of device work to the next one of the stream
    HOST = 2  # work of a thread from one instant to the next
    CALL = 3  # own cost of a call that blocks
    EXCHANGE = 4  # own cost of a call that communicates
    LAUNCH = 5  # call to the device work that it launches
    EVENT = 6  # event record to the stream or thread that waits for it
    SYNCHRONIZATION = 7  # device work to the end of the call that waits for it
    ARRIVAL = 8  # begin of a rank's part of an operation to the moment when all have come
    TRANSFER = 9  # that moment to the end of a rank's part
    HANDOVER = 10  # a thread goes on after another thread of its process fell silent
    ROOM = 11  # begin of a kernel that fills its device to that of work beside it, which waits until it leaves room


# ns. Medians on real reports: 1 to 3 us after the last work of a stream, 2 to 5 us after an event, 10 to 20 us after
# the begin of the launching call. An edge that does not bind counts with no more than these: its own lag is not known.
USUAL_LAG = np.array([0, 1_500, 0, 3_000, 3_000, 8_000, 3_000, 10_000, 0, 0, 0, 0], dtype=np.int64)
# A thread without an instant for so long may have waited for another one (ns).
LEAST_SILENCE_NS = 100_000
# Without recorded events, work that begins so soon after other work of its device ended has waited for it (ns).
LONGEST_FOLLOWING_LAG_NS = 10_000


class Edges(NamedTuple):
    """Edges between nodes of different chains, with EdgeKind. NO_NODE: an end that the reports do not show."""

    source: Nodes
    target: Nodes
    kind: npt.NDArray[np.int8]


def edges_of(source: Nodes, target: Nodes, kind: EdgeKind) -> Edges:
    """Return edges of one kind."""
    number = numbers_to(1 + int(max(source.max(initial=0), target.max(initial=0))))
    return Edges(source.astype(number), target.astype(number), np.full(len(source), kind, dtype=np.int8))


def joined(parts: Sequence[Edges]) -> Edges:
    """Concatenate edges."""
    source, target, kind = zip(*parts, strict=True)
    return Edges(np.concatenate(source), np.concatenate(target), np.concatenate(kind))

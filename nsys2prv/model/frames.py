"""The frames that families make and everything else works on. Times are int64 ns of the report's own clock."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

# Times are ns. `place`: the report's number of a thread, stream or GPU; `slot`: its number of an event type.
INTERVAL = {
    "start": pl.Int64(),
    "end": pl.Int64(),
    "place": pl.UInt32(),
    "slot": pl.UInt16(),
    "value": pl.Int64(),
}
# A further column of intervals where any was recorded without a length: those are drawn 1 ns long.
EMPTY = "empty"
# Two columns of samples; one more for each event type holds its values.
SAMPLE = {"time": pl.Int64(), "place": pl.UInt32()}
# A line from `place` at `time` to `to_place` at `received`; `size` in bytes; `tag`: see line_tags.
MESSAGE = {
    "time": pl.Int64(),
    "place": pl.UInt32(),
    "received": pl.Int64(),
    "to_place": pl.UInt32(),
    "size": pl.Int64(),
    "tag": pl.Int64(),
}
# `state`: a number of model/states.py.
STATE = {"start": pl.Int64(), "end": pl.Int64(), "place": pl.UInt32(), "state": pl.Int64()}
# Kinds of ends. A completion is the call that waits for a collective that an earlier call only began.
COLLECTIVE, SEND, RECEIVE, COMPLETION = 0, 1, 2, 3
# Kinds of ends that belong to collectives.
OF_COLLECTIVES = (COLLECTIVE, COMPLETION)
# Columns: see OperationEnds.
OPERATION_END = {
    "kind": pl.UInt8(),
    "member": pl.UInt32(),
    "sequence": pl.Int64(),
    "peer": pl.Int64(),
    "tag": pl.Int64(),
    "operation": pl.Int64(),
    "size": pl.Int64(),
    "time": pl.Int64(),
    "began": pl.Int64(),
    "ended": pl.Int64(),
    "place": pl.UInt32(),
}
# A further column of ends (Int64) that have a number of their own, which is the same for all ends of an operation or
# message; null: none. Their `sequence` may be null: it is counted where another end has no such number.
IDENTITY = "identity"

# One rank's part of an operation or message that crosses reports, in ns of the report's clock. Kinds: `collective`
# (nobody leaves before all have entered), `init` (the same, as a rule), `send` and `recv`. Rows with the same
# communicator and sequence are one operation, or one message; `ranks` is how many ranks take part, where the report
# says so.
ANCHOR = {
    "kind": pl.String(),
    "communicator": pl.String(),
    "sequence": pl.Int64(),
    "ranks": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
}


# Kinds of calls that wait: a stream waits for an event; a host thread for an event, a stream, or all streams of its
# context.
STREAM_WAIT_EVENT, HOST_WAIT_EVENT, HOST_WAIT_STREAM, HOST_WAIT_CONTEXT = 0, 1, 2, 3
# Columns: see WaitCalls.
WAIT_CALL = {
    "kind": pl.UInt8(),
    "time": pl.Int64(),
    "place": pl.UInt32(),
    "stream": pl.UInt32(),
    "record_time": pl.Int64(),
    "record_stream": pl.UInt32(),
}


class Intervals(NamedTuple):
    """Activities with a duration: columns of INTERVAL, then one Int64 column an attribute (null: none).

    An attribute is named by its event type. `slot` is the report's number of the event type, `value` a number or the
    report's number of a label.
    """

    data: pl.DataFrame
    attributes: tuple[str, ...] = ()


class Samples(NamedTuple):
    """Values measured at instants: columns of SAMPLE, then one Int64 column an event type, held until its next value.

    Null: not measured, or not changed. Sorted by place and time.
    """

    data: pl.DataFrame
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: pl.DataFrame) -> Samples:
        """Return samples whose columns beside SAMPLE are event types."""
        return cls(data, tuple(c for c in data.columns if c not in SAMPLE))


class Messages(NamedTuple):
    """Lines from one place at `time` to another at `received`: columns of MESSAGE (size in bytes)."""

    data: pl.DataFrame


class States(NamedTuple):
    """States of places: columns of STATE, one state at a time (they do not nest)."""

    data: pl.DataFrame


class OperationEnds(NamedTuple):
    """One rank's part of each collective and message: columns of OPERATION_END, and perhaps IDENTITY.

    `kind`: COLLECTIVE, SEND, RECEIVE or COMPLETION. `member`: the report's number of a process on a communicator (see
    interning.Members). `peer`: rank on the communicator of a message's other side, or of a collective's root (null:
    none). `sequence` counts from 1: the collectives of a member, and its messages of one kind with one `peer` and
    `tag`. `time` is when a message leaves or has arrived, and when a rank enters a collective; a completion has the
    `time` of its collective. `size` in bytes. `began` and `ended` are those of the activity that carries the operation,
    on `place` (null: the report lacks it).
    """

    data: pl.DataFrame


class WaitCalls(NamedTuple):
    """Calls that make a stream or a host thread wait for device work: columns of WAIT_CALL.

    `time` and `place`: begin (ns) and thread of the call; `stream`: the stream that waits, or that a host thread waits
    for. Of a wait for a context only the context of this stream counts: the stream need not exist. `record_time`,
    `record_stream`: begin of the call that recorded the event, and its stream (null: no event).
    """

    data: pl.DataFrame


class Anchors(NamedTuple):
    """Operations of several ranks by which the clocks of reports are compared: columns of ANCHOR.

    Rows without communicator, sequence, start or end are no anchors; `ranks` may be null.
    """

    data: pl.DataFrame


# A range whose text has a number and comes once on its thread. Times are the report's; `first` and `last`: begin of the
# first and end of the last device activity that its process launched in it (null: none); `open`: recording stopped
# within it.
NUMBERED_RANGE = {
    "globalTid": pl.Int64(),
    "pattern": pl.String(),
    "number": pl.Int64(),
    "text": pl.String(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "open": pl.Boolean(),
    "first": pl.Int64(),
    "last": pl.Int64(),
}
# Total length (ns) of the ranges of a thread: the main thread of a process has the largest.
THREAD_TOTAL = {"globalTid": pl.Int64(), "total": pl.Int64()}
# Patterns with a text that a thread repeated: they number no iterations.
REPEATED = {"globalTid": pl.Int64(), "pattern": pl.String()}


class NumberedRanges(NamedTuple):
    """Ranges that may number the iterations of a run: columns of NUMBERED_RANGE, THREAD_TOTAL and REPEATED."""

    ranges: pl.DataFrame = pl.DataFrame(schema=NUMBERED_RANGE)
    totals: pl.DataFrame = pl.DataFrame(schema=THREAD_TOTAL)
    repeated: pl.DataFrame = pl.DataFrame(schema=REPEATED)


# Frames that are drawn, and all frames of families.
Drawn = Intervals | Samples | Messages | States
Frame = Drawn | OperationEnds | WaitCalls | Anchors | NumberedRanges

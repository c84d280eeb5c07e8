"""Messages of NCCL kernels without payload: a send and the receive on another device that ends with it are one message.

So the messages of a stream are told apart that serves several peers, as of a stage in the middle of a pipeline. A
receive that came first ends a steady time after its send. Others may end then by chance, as where pipelines run in
step: between peers the time is steadier than between devices that only do the same.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.intervals.spans import Spans, overlapping

# Highest distance of the ends of a send and its receive (ns). In a pipeline of four H100 it is 13 us.
MOST_ENDS_APART_NS = 50_000
# How far the distance may be from the usual one of two peers (ns): in that pipeline by 0.5 us.
MOST_DEVIATION_NS = 5_000
# Lowest share of the messages that a device receives that is of one peer.
LEAST_SHARE_OF_PEER = 0.1
# Lowest share of the time of a stream's receives that has a partner, for any of them to count.
LEAST_PAIRED_SHARE = 0.8
# Highest mean number of receives that end near each send: with more, chance decides.
MOST_RECEIVES_OF_SEND = 16
# The numbers of the two kernels of a message.
MESSAGE = {"send": pl.UInt32(), "receive": pl.UInt32()}
_PEERS = ["sender", "receiver"]


def messages_by_ends(sends: pl.DataFrame, receives: pl.DataFrame) -> pl.DataFrame:
    """Return MESSAGE: the numbers of sends and receives that are one message, in order of the sends.

    `sends`, `receives`: kernels with `number` (no two alike), `task`, `device`, `stream`, `start` and `end` (ns). Where
    too little of the time of a stream's receives has a partner, none of them has. A receive that came after its send
    was done has none: it waits for nothing.
    """
    near = _near(sends, receives)
    if near.is_empty():
        return pl.DataFrame(schema=MESSAGE)
    found = _told(near.join(_peers(near), on=_PEERS))
    often = pl.len().over(_PEERS) >= LEAST_SHARE_OF_PEER * pl.len().over("receiver")
    found = found.filter(often)
    waited = receives.with_columns(ns=pl.col("end") - pl.col("start"))
    told = pl.col("number").is_in(found["receive"].implode())
    share = waited.group_by("stream").agg(told=pl.col("ns").filter(told).sum() / pl.col("ns").sum())
    kept = waited.join(share.filter(pl.col("told") >= LEAST_PAIRED_SHARE), on="stream", how="semi")
    return found.join(kept, left_on="receive", right_on="number", how="semi").select(*MESSAGE).sort("send")


def _near(sends: pl.DataFrame, receives: pl.DataFrame) -> pl.DataFrame:
    """Return sends and receives of two devices that run at one time and end near each other; none if they are crowded.

    `send`, `receive`: their numbers; `sender`, `receiver`: task and device; `later`: how much later the receive ends.
    """
    first, other = (frame.sort("end") for frame in (sends, receives))
    ends, until = (frame["end"].to_numpy() for frame in (first, other))
    pairs = np.searchsorted(until, ends + MOST_ENDS_APART_NS) - np.searchsorted(until, ends - MOST_ENDS_APART_NS)
    crowded = pairs.sum() > MOST_RECEIVES_OF_SEND * len(ends)
    windows = Spans(ends[:0], ends[:0]) if crowded else Spans(ends - MOST_ENDS_APART_NS, ends + MOST_ENDS_APART_NS)
    of_send, of_receive = overlapping(windows, Spans(until, until + 1))
    place = pl.struct("task", "device")
    send = first.select("start", "end", send="number", sender=place)[of_send]
    receive = other.select(began="start", until="end", receive="number", receiver=place)[of_receive]
    both = pl.concat([send, receive], how="horizontal")
    at_once = (pl.col("start") < pl.col("until")) & (pl.col("began") < pl.col("end"))
    apart = both.filter(at_once, pl.col("sender") != pl.col("receiver"))
    return apart.select("send", "receive", *_PEERS, later=pl.col("until") - pl.col("end"))


def _peers(near: pl.DataFrame) -> pl.DataFrame:
    """Return sender, receiver, and the usual `later` of those that may be peers, with its `spread` (ns, medians)."""
    nearest = near.filter(pl.col("later").abs() == pl.col("later").abs().min().over("receive", "sender"))
    median = pl.col("later").median()
    known = nearest.group_by(_PEERS).agg(
        count=pl.col("receive").n_unique(), usual=median, spread=(pl.col("later") - median).abs().median()
    )
    received = near.group_by("receiver").agg(received=pl.col("receive").n_unique())
    often = pl.col("count") >= LEAST_SHARE_OF_PEER * pl.col("received")
    return known.join(received, on="receiver").filter(often).select(*_PEERS, "usual", "spread")


def _told(near: pl.DataFrame) -> pl.DataFrame:
    """Return send, receive, sender and receiver of messages: pairs of the steadiest peers first, then the nearest."""
    off = (pl.col("later") - pl.col("usual")).abs()
    left = (
        near.with_columns(off=off)
        .filter(pl.col("off") <= MOST_DEVIATION_NS)
        .sort("spread", *_PEERS, "off", "send", "receive")
    )
    left = left.with_row_index("place")
    parts = [left.clear()]
    while left.height:
        first = (pl.col("place") == pl.col("place").min().over(side) for side in ("send", "receive"))
        parts.append(left.filter(*first))
        left = left.join(parts[-1], on="send", how="anti").join(parts[-1], on="receive", how="anti")
    return pl.concat(parts).select("send", "receive", *_PEERS)

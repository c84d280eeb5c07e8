"""Messages of NCCL kernels without payload: a send and the receive on another device that ends with it are one message.

This tells apart the messages of a stream that serves several peers, such as a stage in the middle of a pipeline. A
receive that came before its send ends a steady time after it. Receives of other devices may end then by chance, as
where pipelines run in step, but between peers the time is steadier.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.intervals.spans import Spans, overlapping

# Highest distance of the ends of a send and its receive (ns). In a pipeline of four H100 it is 13 us.
MOST_ENDS_APART_NS = 50_000
# How far the distance may be from the usual one of two peers (ns): in that pipeline by 0.5 us.
MOST_DEVIATION_NS = 5_000
# A peer sends at least this share of the messages that a device receives.
LEAST_SHARE_OF_PEER = 0.1
# Receives of a stream count if those with a partner have at least this share of their time.
LEAST_PAIRED_SHARE = 0.8
# Highest mean number of receives that end near each send: with more, chance decides.
MOST_RECEIVES_OF_SEND = 16
# The numbers of the two kernels of a message.
MESSAGE = {"send": pl.UInt32(), "receive": pl.UInt32()}
_PEERS = ["sender", "receiver"]


def messages_by_ends(sends: pl.DataFrame, receives: pl.DataFrame) -> pl.DataFrame:
    """Return MESSAGE: the numbers of sends and receives that are one message, in order of the sends.

    `sends`, `receives`: kernels with `number` (no two alike), `task`, `device`, `stream`, `start` and `end` (ns). A
    receive that came after its send was done has no partner: it waits for nothing. No receive of a stream has one if
    too few of them have (LEAST_PAIRED_SHARE).
    """
    near = _near(sends, receives)
    if near.is_empty():
        return pl.DataFrame(schema=MESSAGE)
    often = pl.len().over(_PEERS) >= LEAST_SHARE_OF_PEER * pl.len().over("receiver")
    found = _paired(near.join(_peers(near), on=_PEERS)).filter(often)
    ns, paired = pl.col("end") - pl.col("start"), pl.col("number").is_in(found["receive"].implode())
    kept = receives.filter((ns.filter(paired).sum() / ns.sum() >= LEAST_PAIRED_SHARE).over("stream"))
    return found.join(kept, left_on="receive", right_on="number", how="semi").select(*MESSAGE).sort("send")


def _near(sends: pl.DataFrame, receives: pl.DataFrame) -> pl.DataFrame:
    """Return pairs of a send and a receive of two devices that run at one time and end near each other.

    `send`, `receive`: their numbers; `sender`, `receiver`: task and device; `later`: how much later the receive ends
    (ns). Without rows if there are too many pairs to tell (MOST_RECEIVES_OF_SEND).
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
    """Return the senders and receivers that may be peers, with the `usual` later of their pairs and its `spread`.

    Both are medians in ns.
    """
    nearest = near.filter(pl.col("later").abs() == pl.col("later").abs().min().over("receive", "sender"))
    median = pl.col("later").median()
    known = nearest.group_by(_PEERS).agg(
        count=pl.col("receive").n_unique(), usual=median, spread=(pl.col("later") - median).abs().median()
    )
    received = near.group_by("receiver").agg(received=pl.col("receive").n_unique())
    often = pl.col("count") >= LEAST_SHARE_OF_PEER * pl.col("received")
    return known.join(received, on="receiver").filter(often).select(*_PEERS, "usual", "spread")


def _paired(near: pl.DataFrame) -> pl.DataFrame:
    """Return send, receive, sender and receiver of messages, no send or receive twice.

    Pairs of the steadiest peers come first, then those nearest to the usual distance.
    """
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

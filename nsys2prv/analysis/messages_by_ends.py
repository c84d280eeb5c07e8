"""Messages of NCCL kernels without payload: a send and the receive on another device that ends with it are one message.

So the messages of a stream are told apart that serves several peers, as of a stage in the middle of a pipeline. A
receive that came first ends with its send. Two transfers may end at one time by chance: first it is found which devices
are peers, and how far apart their messages end; only messages that do so count.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.intervals.grouped import overlapping
from nsys2prv.intervals.spans import Spans

# Highest distance of the ends of a send and its receive (ns). In a pipeline of four H100 it is 13 us.
ENDS_APART = 50_000
# Lowest share of the messages that a device receives that is of one peer.
OF_PEER = 0.1
# How far the distance may be from the usual one of two peers (ns): in that pipeline by 0.5 us.
STEADY = 5_000
# Lowest share of the time of a stream's receives that has a partner, for any of them to count.
TOLD = 0.8
# Highest mean number of sends that end near each receive: with more, chance decides.
CROWDED = 16
MESSAGE = {"send": pl.UInt32(), "receive": pl.UInt32()}


def messages_by_ends(sends: pl.DataFrame, receives: pl.DataFrame) -> pl.DataFrame:
    """Return MESSAGE: the numbers of sends and receives that are one message, in order of the sends.

    `sends`, `receives`: kernels with `number` (no two alike), `task`, `device`, `stream`, `start` and `end` (ns). Where
    too little of the time of a stream's receives has a partner, none of them has. A receive that came after its send
    was done has none: it waits for nothing.
    """
    near = _near(sends, receives)
    if near.height > CROWDED * receives.height:
        return pl.DataFrame(schema=MESSAGE)
    by = ["place_of_send", "place_of_receive"]
    pairs = _nearest(near).group_by(by).agg(count=pl.len(), usual=pl.col("later").median())
    peers = pairs.filter(pl.col("count") >= OF_PEER * pl.col("count").sum().over("place_of_receive"))
    steady = near.join(peers, on=by).with_columns(apart=(pl.col("later") - pl.col("usual")).abs())
    found = _nearest(steady.filter(pl.col("apart") <= STEADY))
    waited = receives.with_columns(
        ns=pl.col("end") - pl.col("start"), told=pl.col("number").is_in(found["receive"].implode())
    )
    share = waited.group_by("stream").agg(told=pl.col("ns").filter("told").sum() / pl.col("ns").sum())
    kept = waited.join(share.filter(pl.col("told") >= TOLD), on="stream", how="semi")
    return found.join(kept, left_on="receive", right_on="number", how="semi").select(*MESSAGE).sort("send")


def _near(sends: pl.DataFrame, receives: pl.DataFrame) -> pl.DataFrame:
    """Return sends and receives that end near each other: their numbers and places (task and device).

    `later`: how much later the receive ends (ns), `apart`: the same without its sign.
    """
    first, other = (frame.sort("end") for frame in (sends, receives))
    ends = [frame["end"].to_numpy() for frame in (first, other)]
    of_send, of_receive = overlapping(Spans(ends[0] - ENDS_APART, ends[0] + ENDS_APART), Spans(ends[1], ends[1] + 1))
    place = pl.struct("task", "device")
    sides = [
        frame.select("start", "end", pl.col("number").alias(name), place.alias(f"place_of_{name}"))[index]
        for frame, index, name in ((first, of_send, "send"), (other, of_receive, "receive"))
    ]
    both = pl.concat([sides[0], sides[1].rename({"start": "received", "end": "until"})], how="horizontal")
    at_once = (pl.col("start") < pl.col("until")) & (pl.col("received") < pl.col("end"))
    others = pl.col("place_of_send") != pl.col("place_of_receive")
    later = both.filter(at_once, others).with_columns(later=pl.col("until") - pl.col("end"))
    return later.with_columns(apart=pl.col("later").abs())


def _nearest(near: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of which each is the nearest one of the other."""
    nearest = (pl.col("apart") == pl.col("apart").min().over(side) for side in ("send", "receive"))
    chosen = near.filter(*nearest)
    return chosen.unique("send", keep="first", maintain_order=True).unique("receive", keep="first", maintain_order=True)

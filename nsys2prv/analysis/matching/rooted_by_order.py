"""Broadcasts and Reduces of NCCL without payload, on streams whose communicator other kernels show.

A small Broadcast is done on its root before the other ranks begin: the root only writes to buffers. So its kernels need
not run at one time. But all ranks of a communicator run its kernels in one order: between two matched operations each
rank has the same Broadcasts. Times must not contradict it: no rank has the data of a Broadcast before its root begins,
and the root of a Reduce does not end before all have begun.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.matching.communicators_by_order import (
    FEWEST_KERNELS,
    LEAST_COMMON_SHARE,
    LEAST_SHARE_AT_ONCE,
    TO_ROOT,
)

# So many operations do not run at one time and end together by chance.
FEWEST_TELLING_OPERATIONS = 16
# An operation. `set`: those of one name in one communicator; `interval`: how many matched operations come before it.
_OPERATION = ["set", "interval", "number"]


def rooted_by_order(kernels: pl.DataFrame, matched: pl.DataFrame, clock_error: int) -> pl.DataFrame:
    """Return the kernels whose operation follows from order, with `group` and `nth`: equal for those of one operation.

    `kernels`: those of names with a root, with name, `root`, place (stream of the GPU), stream (kernels of one name on
    a place), clock, start and end (ns). `matched`: matched kernels of other names: group, nth, place and start.
    """
    placed = _placed(kernels, matched)
    if placed.is_empty():
        return placed.with_columns(group="stream", nth="number")
    whole = pl.len().over(_OPERATION) == pl.col("members")
    # Before the first matched operation and after the last one, ranks may have recorded fewer.
    alike = (pl.col("count").min() == pl.col("count").max()).over("set", "interval")
    kept = placed.with_columns(kept=whole & (alike | ~pl.col("inner")), longest=pl.len().over("stream"))
    share, operations = pl.col("kept").filter("inner").mean(), pl.col("kept").sum() / pl.col("members").first()
    agreeing = (share.fill_null(1.0) >= LEAST_SHARE_AT_ONCE) & (
        operations >= LEAST_COMMON_SHARE * pl.col("longest").max()
    )
    found = _with_root(kept.filter(agreeing.over("set")).filter("kept"), clock_error)
    return found.with_columns(
        group=pl.col("stream").min().over("set"), nth=pl.struct(_OPERATION).rank("dense").cast(pl.Int64)
    )


def without_smaller_groups(found: pl.DataFrame, by_times: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels that `rooted_by_order` found, without groups that times divide into smaller ones.

    `by_times`: kernels with `group` and nth, of groups of streams whose kernels ran at one time. One of these groups
    with FEWEST_TELLING_OPERATIONS is a communicator of fewer ranks if all of its streams are in one group of `found`.
    That group is left out if such communicators have all of its streams.
    """
    of_stream = found.select("stream", larger="group").unique()
    many = by_times.filter((pl.col("nth").n_unique() >= FEWEST_TELLING_OPERATIONS).over("group"))
    parts = many.select("stream", "group").unique().join(of_stream, on="stream", how="left")
    inside = parts.filter((pl.col("larger").n_unique() == 1).over("group"), pl.col("larger").is_not_null())
    return found.filter((~pl.col("stream").is_in(inside["stream"].implode())).any().over("group"))


def _communicators(matched: pl.DataFrame) -> pl.DataFrame:
    """Return the places that serve one communicator alone, the number of it (`serves`) and of its `members`.

    Places with few operations in common are none: their kernels may have run at one time by chance.
    """
    groups = matched.group_by("group").agg(pl.col("place").unique().sort(), operations=pl.col("nth").n_unique())
    communicators = (
        groups.group_by("place").agg(pl.col("operations").sum()).filter(pl.col("operations") >= FEWEST_KERNELS)
    )
    each = communicators.select("place", members=pl.col("place").list.len()).with_row_index("serves")
    each = each.explode("place").with_columns(shared=pl.len().over("place") > 1)
    return each.filter(~pl.col("shared").any().over("serves"))


def _placed(kernels: pl.DataFrame, matched: pl.DataFrame) -> pl.DataFrame:
    """Return kernels whose name runs on all places of a communicator, with _OPERATION, members, `count` and `inner`.

    `number`: that of the kernel in its interval, counted from the matched operation before it, or back from the first
    one; `count`: how many kernels of its stream the interval has; `inner`: it lies between two matched operations.
    """
    communicators = _communicators(matched)
    own = kernels.join(communicators, on="place").with_columns(set=pl.struct("name", "serves").rank("dense"))
    own = own.filter(pl.col("place").n_unique().over("set") == pl.col("members"))
    # By chance few operations of a communicator may have been matched on some of its places only.
    everywhere = pl.col("place").n_unique().over("group", "serves") == pl.col("members")
    borders = matched.join(communicators, on="place").filter(everywhere).select("place", "start", matched=1)
    both = pl.concat([own.with_columns(matched=0), borders], how="diagonal_relaxed").sort("place", "start")
    before, every = pl.col("matched").cum_sum().over("place"), pl.col("matched").sum().over("place")
    placed = both.with_columns(interval=before, inner=before.is_between(1, every - 1)).filter(pl.col("matched") == 0)
    at = pl.int_range(pl.len()).over("stream", "interval")
    placed = placed.with_columns(count=pl.len().over("stream", "interval").cast(pl.Int64))
    return placed.with_columns(number=pl.when(pl.col("interval") == 0).then(at - pl.col("count")).otherwise(at))


def _with_root(kernels: pl.DataFrame, clock_error: int) -> pl.DataFrame:
    """Return kernels of sets that have a root: one stream is first, or of a Reduce last, in nearly all operations."""
    error = pl.when(pl.col("clock").n_unique().over("set") > 1).then(clock_error).otherwise(0)
    last_begin, first_end = pl.col("start").max().over(_OPERATION), pl.col("end").min().over(_OPERATION)
    first, last = pl.col("start") < first_end + error, pl.col("end") + error > last_begin
    fits = pl.when(pl.col("root") == TO_ROOT).then(last).otherwise(first)
    share = kernels.with_columns(fits=fits).with_columns(share=pl.col("fits").mean().over("stream"))
    return share.filter((pl.col("share").max() >= LEAST_SHARE_AT_ONCE).over("set"))

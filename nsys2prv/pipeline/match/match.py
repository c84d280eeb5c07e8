"""The match stage: match keys of all reports, one partition of the keys at a time, into messages between ranks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.families.nccl.nccl import FAMILY as NCCL
from nsys2prv.families.nccl.nccl_operations import FAMILY as NCCL_OPERATIONS
from nsys2prv.families.whole_run import WAITING_FAMILY
from nsys2prv.intervals.shortest import end_of
from nsys2prv.intervals.spans import Indices
from nsys2prv.model.frames import IDENTITY
from nsys2prv.model.limits import Limits
from nsys2prv.model.losses import Loss
from nsys2prv.pipeline.match.sequences import MatchKeys, continue_sequences
from nsys2prv.pipeline.match.waiting import arrivals_of, store_waiting
from nsys2prv.pipeline.store.points import Points
from nsys2prv.pipeline.store.saved_plan import for_workers, read_saved, save
from nsys2prv.pipeline.store.spill import SpillOf, read_around, write_spill
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.run.clocks import Clock
from nsys2prv.run.matching.match_keys import KEY_LIMIT, Keys
from nsys2prv.run.matching.messages import JOINED, MatchCounts, check_collectives, match_messages
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Spill
from nsys2prv.run.trace_rows import NO_ROW


class MatchedPartition(NamedTuple):
    """Drawn messages and arrivals of one partition (times merged ns, rows of the trace), and the counts of matching."""

    messages: tuple[Spill, ...]
    counts: MatchCounts
    arrivals: Spill | None


class Matches(NamedTuple):
    """Results of matching a run.

    `messages`: messages between ranks, with times and rows of the trace. `before[r][m]`: collectives of member m of
    report r in earlier reports of the same process. `waiting`: points of the events of waiting and transfer.
    """

    messages: tuple[Spill, ...]
    counts: MatchCounts
    before: tuple[Indices, ...]
    waiting: tuple[Spill, ...] = ()


def match_run(plan: Plan, workers: Workers, waiting: bool) -> Matches:
    """Match collectives and messages over all reports. `waiting`: find who waits for whom, too. Raises OutputError."""
    keys = continue_sequences(plan, workers.folder, workers.limits.batch_rows)
    borders = partition_borders(keys, workers.limits)
    counts = MatchCounts()
    messages: list[Spill] = []
    arrivals: list[Spill] = []
    partitions = _partitions(plan, keys, borders, workers, waiting)
    for matched in workers.progress.track("matching ranks", partitions, len(borders) - 1):
        counts.add(matched.counts)
        messages += matched.messages
        arrivals += [matched.arrivals] if matched.arrivals else []
    return Matches(tuple(messages), counts, keys.before, store_waiting(arrivals, plan.duration, workers))


def _partitions(
    plan: Plan, keys: MatchKeys, borders: Keys, workers: Workers, waiting: bool
) -> Iterator[MatchedPartition]:
    """Match all partitions, here or by workers."""
    numbers = range(len(borders) - 1)
    if workers.count == 1 or len(numbers) <= 1:
        return map(partial(match, plan, keys, borders, workers.folder, workers.limits, waiting), numbers)
    saved = workers.folder / "to-match"
    save((for_workers(plan), keys), saved)
    return workers.map(partial(_match_saved, saved, borders, workers.limits, waiting), numbers)


def _match_saved(saved: Path, borders: Keys, limits: Limits, waiting: bool, number: int) -> MatchedPartition:
    plan, keys = read_saved(saved)
    return match(plan, keys, borders, saved.parent, limits, waiting, number)


def partition_borders(keys: MatchKeys, limits: Limits) -> Keys:
    """Return borders of partitions, each [b[i], b[i + 1]) with about `limits.match_rows` match keys."""
    total = sum(spill.rows for ends in keys.ends for spill in ends)
    count = -(-total // limits.match_rows)
    return np.array([KEY_LIMIT // max(count, 1) * n for n in range(count)] + [KEY_LIMIT], dtype=np.int64)


@on_polars_thread
def match(
    plan: Plan, keys: MatchKeys, borders: Keys, folder: Path, limits: Limits, waiting: bool, number: int
) -> MatchedPartition:
    """Match the keys of partition `number`. Drawn messages, and arrivals if `waiting`, go to files in `folder`."""
    ends = joined_ends(plan, keys, int(borders[number]), int(borders[number + 1]))
    messages, counts = match_messages(ends)
    counts.add(check_collectives(ends, plan.communicators.ranks.tolist()))
    drawn = messages.filter((pl.col("row") != NO_ROW) & (pl.col("to_row") != NO_ROW))
    counts.leave(messages.filter((pl.col("row") == NO_ROW) | (pl.col("to_row") == NO_ROW)), Loss.MESSAGE_WITHOUT_ROW)
    lasting = pl.min_horizontal("time", "received") >= 0, pl.max_horizontal("time", "received") <= plan.duration
    inside = drawn.filter(*lasting)
    counts.leave(drawn.filter(~(lasting[0] & lasting[1])), Loss.OUTSIDE)
    counts.draw(inside)
    spills = []
    for (family,), own in inside.group_by("family"):
        path = folder / f"matched.{family}.{number}.arrow"
        of = SpillOf("messages", str(family))
        spills.append(write_spill(path, of, Points(own.drop("family").sort(pl.all())), limits.batch_rows))
    arrivals = arrivals_of(ends, plan.duration) if waiting else pl.DataFrame()
    if arrivals.is_empty():
        return MatchedPartition(tuple(spills), counts, None)
    path, of = folder / f"arrivals.{number}.arrow", SpillOf("arrivals", WAITING_FAMILY.name)
    return MatchedPartition(tuple(spills), counts, write_spill(path, of, Points(arrivals), limits.batch_rows))


def joined_ends(plan: Plan, keys: MatchKeys, low: int = 0, high: int = KEY_LIMIT) -> pl.DataFrame:
    """Read the ends of all reports with keys in [low, high): columns of JOINED.

    Those of NCCL come from operations on the device where the communicator is identified. Elsewhere they come from
    calls, or without calls of that member from counted operations on the device.
    """
    known = plan.communicators
    kept_ends = [pl.DataFrame(schema=JOINED)]
    for r, spills in enumerate(keys.ends):
        for spill in spills:
            around = read_around(spill, low, high)
            if around is None:
                continue
            ends = around.filter((pl.col("key") >= low) & (pl.col("key") < high))
            member = ends["member"].to_numpy()
            number = known.number[r][member]
            identified, on_device = known.identified[number], spill.family == NCCL_OPERATIONS.name
            kept = identified | ~known.called[r][member] if on_device else ~identified
            identity = pl.col(IDENTITY) if IDENTITY in ends.columns else pl.lit(None, pl.Int64)
            joined = ends.with_columns(
                family=pl.lit(NCCL.name if on_device else spill.family),
                communicator=pl.Series(number),
                identified=pl.Series(identified),
                sequence=pl.when(pl.Series(identified)).then(identity).otherwise("sequence"),
                rank=pl.Series(known.rank[r][member]),
                task=pl.Series(known.task[r][member]),
                device=pl.Series(known.device[r][member]),
                time=pl.Series(plan.clocks[r].merged(ends["time"].to_numpy())),
                began=_merged(plan.clocks[r], ends["began"]),
                ended=_merged(plan.clocks[r], ends["ended"]),
                row=pl.Series(plan.objects.row_of[r][ends["place"].to_numpy()]),
            )
            kept_ends.append(joined.select(*JOINED).filter(pl.Series(kept)))
    # An activity of 1 ns stays one under a slope.
    return pl.concat(kept_ends).with_columns(ended=end_of("ended", "began"))


def _merged(clock: Clock, times: pl.Series) -> pl.Series:
    """Return merged times; null stays."""
    merged = pl.Series(clock.merged(times.fill_null(0).to_numpy()))
    return merged if not times.null_count() else pl.select(pl.when(times.is_not_null()).then(merged)).to_series()

"""The milestone of a run, by whose launches its iterations are told apart: the work that all processes repeat alike.

Many programs name no range for an iteration (Megatron, most of inference), but each iteration runs the optimizer, or a
collective of one size, or launches a graph. Where none of these repeats on every process, any kernel counts that comes
at equal places in the order of launches (see `repeats_by_order.py`), else a collective call of MPI that does, else a
call in which every rank waits for messages after device work. `repeats.py` finds what repeats in one report.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import polars as pl

from nsys2prv.run.iterations.milestone_kinds import OF_COLLECTIVE, OF_GRAPH, OF_MPI_COLLECTIVE, OF_OPTIMIZER, OF_ORDER
from nsys2prv.run.iterations.repeats import REPEATED_STEP
from nsys2prv.run.iterations.repeats_by_kind import LEAST_REGULAR_SHARE
from nsys2prv.run.iterations.repeats_by_order import COUNT_TOLERANCE, FEWEST_REPEATS, STRICT_USUAL_SHARE

# A collective comes in a loop within an iteration, as in each layer of a model, if kernels come at most once for
# FEWEST_LOOP_COLLECTIVES of them, with STRICT_USUAL_SHARE of their distances usual, and if at most
# MOST_LAYER_ACTIVITIES device activities go with each.
MOST_LAYER_ACTIVITIES, FEWEST_LOOP_COLLECTIVES = 60, 3
# Fewest kernels that come equally often, where they count instead of a kernel at unequal places, or of collectives with
# more than MOST_LAYER_ACTIVITIES each.
FEWEST_AGREEING_KERNELS = 3
# A kernel that runs in most iterations comes at least once in so many of them.
MOST_STEPS_OF_MILESTONE = 2
# Milestones of one work have the same period if their periods differ by at most this share.
SAME_PERIOD_TOLERANCE = 0.1
# A process that began to record later has this share of the most milestones, at least, with the same period.
LEAST_BEGUN_LATER_SHARE = 0.5


class Milestone(NamedTuple):
    """The work by which iterations are found. `bytes` is null for all but collectives."""

    kind: int
    name: str
    bytes: int | None

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of this milestone. Those of an optimizer may have another name on each process."""
        of_name = pl.lit(True) if self.kind == OF_OPTIMIZER else pl.col("name") == self.name
        return rows.filter(pl.col("kind") == self.kind, of_name, pl.col("bytes").eq_missing(self.bytes))


class ReportRepeats(NamedTuple):
    """Repeating work of one report: see Repeating. Processes are globalPids, times ns of the report's clock.

    Its steps are in a file, if it has any: only those of one milestone are wanted, and a run may have thousands of
    reports.
    """

    processes: tuple[int, ...]
    callers: tuple[int, ...]
    work: pl.DataFrame
    path: Path | None

    def steps(self, milestone: Milestone) -> pl.DataFrame:
        """Return REPEATED_STEP of a milestone."""
        return pl.DataFrame(schema=REPEATED_STEP) if self.path is None else milestone.of(pl.read_ipc(self.path))


def choose_milestone(work: pl.DataFrame, processes: Iterable[int], callers: Iterable[int]) -> Milestone | None:
    """Return the milestone that all of the processes have about as often, where all record; None without one.

    `work`: REPEATING of all processes; `processes`, `callers`: see Repeating. Collective calls of MPI must be of all
    callers. They count where nothing else repeats, and calls that wait for messages where these do not, either. An
    optimizer comes before collectives and graphs, and these before kernels at equal places, unless the collectives come
    in loops; of several milestones that with the longest period counts. If the processes have none in common, the
    optimizer that most of them run counts: helpers of a program do not train.
    """
    of_mpi = pl.col("kind") == OF_MPI_COLLECTIVE
    expected = pl.when(of_mpi).then(len(set(callers))).otherwise(len(set(processes))).cast(pl.Int64)
    common = _common_work(work, expected)
    best = common.head(1)
    best = pl.concat(
        [_around_loops(common, best), _more_orderly(common, best), _without_gaps(common, best), best]
    ).head(1)
    return Milestone(*best.select(Milestone._fields).row(0)) if best.height else None


def _common_work(work: pl.DataFrame, expected: pl.Expr) -> pl.DataFrame:
    """Return the work that processes have in common, the best milestone first, given the number of them that must.

    Kind, name, bytes; `process`: how many have it; median `period` (ns) and `activities`; least `orderly`; `fewest` and
    `most` milestones of a process.
    """
    optimizer = pl.col("kind") == OF_OPTIMIZER
    # The optimizer's kernels may be others on each process.
    name = pl.when(optimizer).then(pl.col("name").mode().sort().first().over("kind")).otherwise("name")
    return (
        work.with_columns(name.alias("name"))
        .group_by(Milestone._fields)
        .agg(
            pl.col("process").n_unique(),
            pl.col("period").median(),
            pl.col("activities").median(),
            pl.col("orderly").min(),
            fewest=pl.col("milestones").min(),
            most=pl.col("milestones").max(),
            same_period=pl.col("period").max() <= (1 + SAME_PERIOD_TOLERANCE) * pl.col("period").min(),
        )
        .with_columns(
            level=pl.col("kind").replace(OF_GRAPH, OF_COLLECTIVE),
            lacking=expected - pl.col("process"),
            begun_later=pl.col("fewest") < LEAST_REGULAR_SHARE * pl.col("most"),
        )
        .filter((pl.col("lacking") == 0) | (optimizer & (pl.col("lacking") < pl.col("process"))))
        .filter(
            ~pl.col("begun_later")
            | (pl.col("same_period") & (pl.col("fewest") >= LEAST_BEGUN_LATER_SHARE * pl.col("most")))
        )
        .sort(
            *("lacking", "level", "begun_later", "period", "name", "bytes"),
            descending=[False, False, False, True, True, False],
        )
    )


def _without_gaps(common: pl.DataFrame, best: pl.DataFrame) -> pl.DataFrame:
    """Return the milestones by order that have the period of the best one, but are more: some of the best are missing.

    Bursts of launches are told apart by the pauses between them. A host that runs ahead until the queue is full pauses
    at any launch, and the bursts of several iterations seem one. A milestone of other work than the best must come a
    third more often. It does where a program is compiled again in its middle, and no longer runs the work of the best.
    """
    of_best = best.select(best="name", usual="period", found="fewest")
    orderly = common.filter(pl.col("kind") == OF_ORDER, pl.col("orderly") >= STRICT_USUAL_SHARE)
    alike = orderly.join(of_best, how="cross")
    same_period = (pl.col("period") - pl.col("usual")).abs() <= SAME_PERIOD_TOLERANCE * pl.col("usual")
    least = pl.when(pl.col("name") == pl.col("best")).then("found").otherwise(pl.col("found") / LEAST_REGULAR_SHARE)
    return alike.filter(same_period, pl.col("fewest") > least).select(common.columns)


def _more_orderly(common: pl.DataFrame, best: pl.DataFrame) -> pl.DataFrame:
    """Return the milestones by order that come as often as several others, and at more equal places than the best one.

    A program tries kernels before it takes one for its loop: that kernel has distances of both kinds. Where the best
    one is orderly itself, up to twice as many count, if more kernels agree on them: shapes that differ from iteration
    to iteration run some kernels in most iterations only.
    """
    by_order = pl.col("kind") == OF_ORDER
    if best.filter(by_order).is_empty():
        return best.clear()
    orderly, fewest = best.select("orderly", "fewest").row(0)
    alone = orderly < STRICT_USUAL_SHARE
    more = common.filter(by_order, pl.col("orderly") >= STRICT_USUAL_SHARE, pl.col("orderly") > orderly)
    in_most = alone or pl.col("fewest") <= MOST_STEPS_OF_MILESTONE * fewest
    as_often = _as_often_as_most(more.filter(pl.col("activities") > MOST_LAYER_ACTIVITIES, in_most))
    with_best = 0 if alone else common.filter(by_order, pl.col("fewest") == fewest).height
    return as_often if as_often.height >= max(FEWEST_AGREEING_KERNELS, with_best + 1) else best.clear()


def _around_loops(common: pl.DataFrame, best: pl.DataFrame) -> pl.DataFrame:
    """Return the milestones by order around a loop of collectives, as of layers or of buckets of gradients.

    They come once for several collectives, and as often as most others that do: some layers may have kernels of their
    own, and a program may report or check something every few iterations. Collectives of buckets may have many
    activities each: then several kernels must be as rare, and more than there are that come as often as the collective.
    """
    if best.filter(pl.col("kind") == OF_COLLECTIVE).is_empty():
        return best.clear()
    collectives, most = best.select("fewest", "most").row(0)
    orderly = common.filter(pl.col("kind") == OF_ORDER, pl.col("orderly") >= STRICT_USUAL_SHARE)
    rare = orderly.filter(pl.col("most") * FEWEST_LOOP_COLLECTIVES <= collectives)
    around = _as_often_as_most(rare)
    each_time = orderly.filter((pl.col("most") - most).abs() <= COUNT_TOLERANCE * most)
    of_layers = best.filter(pl.col("activities") <= MOST_LAYER_ACTIVITIES).height
    return around if of_layers or around.height >= max(FEWEST_AGREEING_KERNELS, each_time.height + 1) else best.clear()


def _as_often_as_most(milestones: pl.DataFrame) -> pl.DataFrame:
    """Return the milestones (of different work) that come as often as most others, in their order."""
    counts = milestones.group_by("most").agg(names=pl.len()).sort("names", "most", descending=True).head(1)
    return milestones.join(counts.select("most"), on="most", how="semi", maintain_order="left")


def numbered_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """Number the steps of one milestone: REPEATED_STEP with `number`. Times are on one clock.

    Each process is compared with the one that has the most steps, as it may have begun to record later. If nearly all
    of its steps are as many places away from the steps that run at the same time, it is numbered like those. Else, as
    where processes never wait for each other, its last step has the number of the last step there. A process with as
    many steps, most of which overlap with the step of the same place, is numbered by place: it only lags behind.
    """
    count = pl.len().over("process").cast(pl.Int64)
    ordered = steps.sort("process", "start").with_columns(
        nth=pl.int_range(pl.len(), dtype=pl.Int64).over("process"),
        later=count.max() - count,
        middle=(pl.col("first") + pl.col("last")) // 2,
    )
    longest = ordered.filter(pl.col("later") == 0, pl.col("process") == pl.col("process").filter(later=0).first())
    nearest = ordered.sort("middle").join_asof(
        longest.select("middle", at="nth").sort("middle"), on="middle", strategy="nearest"
    )
    within = pl.col("middle").is_between(longest["middle"].min(), longest["middle"].max())
    shift = (pl.col("at") - pl.col("nth")).filter(within)
    regular = (shift.len() >= FEWEST_REPEATS) & ((shift == shift.mode().min()).mean() >= LEAST_REGULAR_SHARE)
    usual = nearest.group_by("process").agg(shift=shift.mode().min(), regular=regular)
    alike = ordered.join(longest.select("nth", begins="first", ends="last"), on="nth")
    at_once = (pl.col("first") < pl.col("ends")) & (pl.col("last") > pl.col("begins")) & (pl.col("later") == 0)
    lagging = alike.group_by("process").agg(lags=at_once.mean() >= LEAST_REGULAR_SHARE)
    joined = ordered.join(usual, on="process", maintain_order="left").join(lagging, on="process", maintain_order="left")
    by_time = pl.col("regular") & ~pl.col("lags")
    joined = joined.with_columns(number=pl.col("nth") + pl.when(by_time).then("shift").otherwise("later"))
    return joined.with_columns(pl.col("number") - pl.col("number").min()).select(*REPEATED_STEP, "number")

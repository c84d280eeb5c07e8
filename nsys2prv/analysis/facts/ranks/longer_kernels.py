"""The kernels in which a GPU computes longer than others: more of them, larger ones, or the same that last longer."""

from __future__ import annotations

import re
from collections.abc import Collection
from statistics import median
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.devices.kernel_factors import kernel_factors
from nsys2prv.analysis.facts.devices.scalar_products import hardly_scalar, mainly_scalar
from nsys2prv.analysis.facts.kernel_families import PRODUCTS
from nsys2prv.analysis.facts.thresholds import (
    ALIKE_KERNELS,
    FEW_KERNELS,
    LIKE_LAUNCHES,
    MOST_OF_LONGER,
    NAMED_KERNEL,
    NEARLY_ALL,
    SLOW_KERNELS,
)
from nsys2prv.analysis.frames import KERNEL, NCCL
from nsys2prv.analysis.work_attributes import blocks_of
from nsys2prv.model.frames import RECEIVE
from nsys2prv.model.words import in_range, short

UNDECIDED = (
    "More launches or larger grids are unequal shares; the same kernels taking longer are a slower GPU (clocks, power, "
    "other processes)."
)
# Of kernels that do not tell which.
DATA_OR_SPEED = (
    "With the same launches and grids it has more data or larger shapes, to be shared evenly, or the GPU is slower "
    "(clocks, power, other processes)."
)
MORE_LAUNCHES = "Even out what makes it launch more (layers, microbatches, experts, cells)."
MORE_DATA = (
    "It has more data in as many launches: even that out (rows of batches and tables, tokens of experts, lengths of "
    "sequences)."
)
OTHER_KERNELS = (
    "It runs other kernels in as many launches: compare the types (FP32, BF16), shapes and layouts of its data, and "
    "the versions of its libraries, with those of others."
)
OTHER_TYPE = (
    "It computes its products without tensor cores (FP32 or FP64), others with them: give all ranks the same types and "
    "settings (autocast, TF32)."
)
OTHER_DATA = (
    "Its other kernels take no longer, so that the GPU is not slow: its data makes these work longer (tokens of an "
    "expert, rows that are looked up, lengths of sequences); even that out."
)
SLOWER = (
    "the GPU is slower. See its clocks, power, heat, and other processes on it (nvidia-smi -q -d "
    "CLOCK,PERFORMANCE,TEMPERATURE,POWER)."
)
# Why kernels take longer than on other GPUs, and how many of them are named.
WHYS = LAUNCHES, GRIDS, OTHERS, LONGER = ("launches", "grids", "others", "longer")
MOST_NAMED = 2


class _Kernels(NamedTuple):
    """Kernels in which a GPU may compute longer than others.

    `what`: their name, or the family of products, and of kernels that not all GPUs run; `longest`: the name of the
    longest; `why`: see above; `ns`, `launches`, `blocks`: of all of them in the window, and `usual_...` on others (the
    median); `least_launches`, `most_launches`: the range of the launches on others.
    """

    what: str
    longest: str
    why: str
    ns: float
    launches: float
    blocks: float
    usual_ns: float
    usual_launches: float
    usual_blocks: float
    least_launches: float
    most_launches: float

    @property
    def excess(self) -> float:
        """Return how much longer they take than on others (ns)."""
        return self.ns - self.usual_ns

    @property
    def label(self) -> str:
        """Return their name, or their family with the name of the longest."""
        longest = f"`{short(self.longest, 40)}`"
        return longest if self.what == self.longest else f"{self.what} kernels like {longest}"

    def difference(self, case: Case) -> str:
        """Return the words for how they differ from those of others."""
        times = f"{self.ns / max(self.usual_ns, 1):.1f} times as long"
        launches, usual = (f"{n / case.step_count:,.0f}" for n in (self.launches, self.usual_launches))
        on_others = in_range(self.least_launches / case.step_count, self.most_launches / case.step_count)
        counts = f"launches {case.unit}: {launches}, on others {on_others}"
        return {
            LAUNCHES: counts,
            GRIDS: f"as many launches with {self.blocks / max(self.usual_blocks, 1):.1f} times as many blocks",
            OTHERS: f"{'as many launches' if launches == usual else counts}; by other kernels they take {times}",
            LONGER: f"the same launches and grids, {times}",
        }[self.why]


def advice_on_longer(case: Case, device: int, others: Collection[int], excess_ns: float) -> str:
    """Return advice on a device that computes longer than others, by the kernels in which it does.

    `excess_ns`: how much longer it computes (ns of an iteration). Where kernels do not explain it by one reason, the
    advice says what to compare.
    """
    factor = kernel_factors(case).get(device)
    if factor is not None and factor.slow:
        return f"Nearly all of its kernels take {factor.factor:.2f} times as long as the same ones on others: {SLOWER}"
    models = [one.model for one in case.run.hardware]
    # A model that is not known may be the same.
    alike = [other for other in others if not models or models[other] in (models[device], "") or not models[device]]
    if others and not alike:
        there = ", ".join(sorted({models[other] for other in others}))
        return f"Its GPU is of another model ({models[device]}, others: {there}): give it a share that fits its speed."
    others = alike
    every = _compared(case, device, others)
    if sum(one.excess for one in every) <= max(0, MOST_OF_LONGER.value * excess_ns * case.step_count):
        return f"Share the work evenly: compare its kernels with another's. {UNDECIDED}"
    excess = sum(max(one.excess, 0) for one in every)
    longest, *further = sorted(every, key=lambda one: (-one.excess, one.what))[:MOST_NAMED]
    named = [longest, *(one for one in further if one.excess >= NAMED_KERNEL.value * excess)]
    (share, where), *more = [_in_words(case, one, excess) for one in named]
    said = f"{share} of what it computes longer is {where}" + "".join(f", {share} {where}" for share, where in more)
    of_products = longest.why == OTHERS and re.match(PRODUCTS, longest.what)
    if of_products and _computes_in_other_type(case, device, others):
        return f"{said}. {OTHER_TYPE}{_received(case, device, others)}"
    conclusion = _conclusion(every, named, excess)
    # Whether unequal shares are the reason is open then.
    share = "" if conclusion == DATA_OR_SPEED else "Share the work evenly: "
    return f"{share}{said}. {conclusion}{_received(case, device, others)}"


def _computes_in_other_type(case: Case, device: int, others: Collection[int]) -> bool:
    """Return True if a device computes its products without tensor cores, and all of the others use them."""
    return device in mainly_scalar(case) and hardly_scalar(case).issuperset(others)


def _in_words(case: Case, one: _Kernels, excess: float) -> tuple[str, str]:
    """Return the share of kernels in what a device computes longer (ns), and which they are."""
    return f"{100 * one.excess / excess:.0f} %", f"in {one.label} ({one.difference(case)})"


def _compared(case: Case, device: int, others: Collection[int]) -> list[_Kernels]:
    """Return the kernels of the window of a device, compared with those of others; none without known grids.

    Kernels whose grid is not known are left out, if they take a small part of the time.
    """
    # Of a device without any the kernels were not recorded.
    recorded = case.run.work.filter(pl.col("kind") == KERNEL)["device"].unique()
    others = sorted({*others} & {*recorded})
    every = case.kernels.filter(pl.col("device").is_in([device, *others]))
    kernels = every.drop_nulls("shape")
    if not others or kernels.is_empty() or int(kernels["ns"].sum()) < NEARLY_ALL.value * int(every["ns"].sum()):
        return []
    here, named, key = pl.col("device") == device, ["family", "name"], ["family", "what"]
    by_name = kernels.group_by("device", pl.col(named).cast(pl.String)).agg(
        pl.col("ns").sum(), launches=pl.len(), blocks=blocks_of(pl.col("shape")).sum()
    )
    own, usual = (pl.col("launches").filter(which).median().over(named) for which in (here, ~here))
    shared = here.any().over(named) & (2 * (~here).sum().over(named) >= len(others))
    as_often = shared & ((own - usual).abs() <= pl.max_horizontal(1.0, LIKE_LAUNCHES.value * usual))
    # Libraries choose among many products by their sizes.
    chosen = pl.col("family").str.contains(PRODUCTS)
    told = by_name.with_columns(
        what=pl.when(shared & ~chosen).then("name").otherwise("family"),
        alike=pl.when(chosen).then(as_often).otherwise(shared),
    )
    figures = ["ns", "launches", "blocks"]
    summed = told.group_by("device", *key).agg(
        pl.col(figures).sum().cast(pl.Float64), longest=pl.col("name").sort_by("ns", "name").last()
    )
    each = told.group_by(key).agg(pl.col("alike").all()).join(pl.DataFrame({"device": [*others]}), how="cross")
    usual_of = (
        each.join(summed, on=["device", *key], how="left")
        .group_by(*key, "alike")
        .agg(
            pl.col(figures).fill_null(0.0).median().name.prefix("usual_"),
            least_launches=pl.col("launches").fill_null(0.0).min(),
            most_launches=pl.col("launches").fill_null(0.0).max(),
        )
    )
    compared = summed.filter(here).join(usual_of, on=key).with_columns(why=_why()).select(_Kernels._fields)
    return [_Kernels(*row) for row in compared.rows()]


def _why() -> pl.Expr:
    """Return why kernels (see _compared) may take longer than on others."""

    def more(figure: str, usual: str) -> pl.Expr:
        return pl.col(figure) - pl.col(usual) > pl.max_horizontal(1.0, LIKE_LAUNCHES.value * pl.col(usual))

    unlike = ~pl.col("alike") | more("usual_launches", "launches") | more("usual_blocks", "blocks")
    return (
        pl.when(more("launches", "usual_launches") | (pl.col("usual_launches") == 0))
        .then(pl.lit(LAUNCHES))
        .when(unlike)
        .then(pl.lit(OTHERS))
        .when(more("blocks", "usual_blocks"))
        .then(pl.lit(GRIDS))
        .otherwise(pl.lit(LONGER))
    )


def _conclusion(every: list[_Kernels], named: list[_Kernels], excess: float) -> str:
    """Return what follows from the kernels of a device: more launches, more data, other data, or what to compare.

    Libraries choose other kernels for larger data, but for other types, too: larger grids, or more blocks in all of the
    other kernels, tell that there is more data.
    """
    of = {why: sum(max(one.excess, 0) for one in every if one.why == why) for why in WHYS}
    larger = any(
        one.why == GRIDS
        or (one.why == OTHERS and one.usual_blocks and one.blocks > (1 + LIKE_LAUNCHES.value) * one.usual_blocks)
        for one in named
    )
    least, more_data = MOST_OF_LONGER.value * excess, of[GRIDS] + of[OTHERS]
    if of[LAUNCHES] + (more_data if larger else of[GRIDS]) >= least:
        return MORE_LAUNCHES if of[LAUNCHES] >= more_data else MORE_DATA
    if of[OTHERS] >= least:
        return OTHER_KERNELS
    rest = [one for one in every if one not in named]
    as_long = sum(one.ns for one in rest) < SLOW_KERNELS.value * sum(one.usual_ns for one in rest)
    in_few = sum(one.excess for one in named if one.why == LONGER) >= FEW_KERNELS.value * excess
    if in_few and as_long and len(rest) >= ALIKE_KERNELS.value:
        return OTHER_DATA
    return DATA_OR_SPEED if of[LONGER] >= least else UNDECIDED


def _received(case: Case, device: int, others: Collection[int]) -> str:
    """Return how many times the bytes of others a device's rank receives in messages; an empty text if not more."""
    ranks = {case.run.task_by_rank[case.run.devices[number].rank] for number in others}
    own, window = case.run.task_by_rank[case.run.devices[device].rank], case.analysis.window
    received = case.run.parts.filter(
        pl.col("family") == NCCL, pl.col("kind") == RECEIVE, pl.col("began").is_between(window.start, window.end)
    )
    by_task = dict(received.group_by("task").agg(pl.col("bytes").sum()).rows())
    usual = median([by_task.get(task, 0) for task in ranks] or [0])
    if not usual or by_task.get(own, 0) <= (1 + LIKE_LAUNCHES.value) * usual:
        return ""
    return f" It receives {by_task[own] / usual:.1f} times the bytes of others."

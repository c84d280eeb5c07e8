"""Profiled kernels joined to the kernels of a run: exactly, else by the mean of the same kernel, else of the class."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import KERNEL, NCCL, AnalyzedTask, Run
from nsys2prv.analysis.ncu.launches import SHAPE, kernel_launches
from nsys2prv.analysis.ncu.placing import NOWHERE, Placed, Placing, place, with_keys
from nsys2prv.intervals.classes import OTHER
from nsys2prv.intervals.spans import Indices
from nsys2prv.model.ncu_types import NCU_JOINED
from nsys2prv.model.words import NAMES_SHOWN, few, short
from nsys2prv.report.ncu.figures import FIGURES
from nsys2prv.report.ncu.names import name_key
from nsys2prv.report.ncu.profile import Profile, ProfileFile
from nsys2prv.run.plan import Plan

# How a kernel got its figures, as NCU_JOINED numbers them.
EXACT, SAME, CLASS = NCU_JOINED.values
# Columns of WORK of a run with profiles: the row of `Run.figures`, and how it was found; null without figures.
JOIN = {"figures": pl.UInt32(), "joined": pl.UInt8()}
# Profiled processes. `known`: kernels that the rank launched, too; `joined`: kernels with a launch of their own;
# `first`: the number of the first such launch, from 1 on; `places`: how many places fit (the first one was taken).
PROFILED = {
    "file": pl.String(),
    "process": pl.Int64(),
    "rank": pl.Int64(),
    "kernels": pl.Int64(),
    "known": pl.Int64(),
    "joined": pl.Int64(),
    "placed": pl.String(),
    "first": pl.Int64(),
    "places": pl.Int64(),
}
# Figures that are means over the time of kernels.
SHARES = ("sm_percent", "tensor_percent", "occupancy_percent")
_RANK_IN_NAME = r"(?i)rank[ _.=-]?(\d+)"


class _Process(NamedTuple):
    """A process of a profile: its kernels (KERNEL_ID, FIGURES, key) in the order of profiling."""

    profile: Profile
    process: int
    kernels: pl.DataFrame


class _Match(NamedTuple):
    """A profiled process and the task whose launches are its kernels; None: no task's are."""

    of: _Process
    task: int | None
    # `key` as `column` of ORDERED_LAUNCH has it.
    keyed: pl.DataFrame
    column: str
    placed: Placed


def with_profiles(run: Run, plan: Plan, profiles: Sequence[Profile]) -> Run:
    """Return the run with JOIN in its WORK, `figures` and `profiled`; kernels that no rank launched are remarked on."""
    if not profiles:
        return run
    launches = kernel_launches(plan)
    matches = list(_matched(list(_processes(profiles)), run.tasks, launches))
    figures, found = _joined(launches, matches)
    work = run.work.join(found, on=["row", "start"], how="left", maintain_order="left")
    kernel = pl.col("kind").is_in([KERNEL, NCCL])
    return run._replace(
        work=work.with_columns(pl.when(kernel).then(c).alias(c) for c in JOIN),
        figures=figures,
        profiled=_profiled(run.tasks, matches),
        remarks=(*run.remarks, *_remarks(matches, run.tasks)),
        details=(*run.details, *_places(matches, run.tasks)),
    )


def _processes(profiles: Sequence[Profile]) -> Iterator[_Process]:
    for profile in profiles:
        keyed = profile.kernels.with_columns(key=name_key(pl.col("name")))
        for (process,), kernels in keyed.group_by("process", maintain_order=True):
            yield _Process(profile, int(process), kernels.sort("id"))


def _matched(processes: Sequence[_Process], tasks: Sequence[AnalyzedTask], launches: pl.DataFrame) -> Iterator[_Match]:
    """Yield each profiled process with its task: the named rank's, else one that launched most of its kernels.

    Of several such tasks the one of the rank in the file's name comes first, then one without a profile, then the
    lowest rank. No two processes of a file have one task; those with most kernels choose first.
    """
    by_task = {int(task): part for (task,), part in launches.group_by("task", maintain_order=True)}
    taken: set[int] = set()
    taken_by: set[tuple[ProfileFile, int]] = set()
    for one in sorted(processes, key=lambda process: -process.kernels.height):
        file = one.profile.file
        fitting = [(_order(m, tasks, taken), m) for m in _candidates(one, by_task, tasks)]
        free = [pair for pair in fitting if (file, pair[1].task) not in taken_by]
        best = min(free or fitting, key=lambda pair: pair[0])[1] if fitting else None
        if best is None or not free:
            how = Placing.NOWHERE if best is None else Placing.MEANS_ALONE
            nowhere = Placed(np.full(one.kernels.height, NOWHERE), best.placed.known if best else 0, how)
            keyed, column = (best.keyed, best.column) if best else (one.kernels, "key")
            yield _Match(one, None, keyed, column, nowhere)
        else:
            assert best.task is not None
            taken.add(best.task)
            taken_by.add((file, best.task))
            yield best


def _candidates(one: _Process, by_task: Mapping[int, pl.DataFrame], tasks: Sequence[AnalyzedTask]) -> Iterator[_Match]:
    """Yield the tasks that launched any of a process' kernels, of the named rank if one is named."""
    rank = one.profile.file.rank
    for task, launches in by_task.items():
        if rank is None or tasks[task].rank == rank:
            keyed, column = with_keys(one.kernels, launches)
            placed = place(keyed, launches, column)
            if placed.how is not Placing.NOWHERE:
                yield _Match(one, task, keyed, column, placed)


def _order(match: _Match, tasks: Sequence[AnalyzedTask], taken: Container[int]) -> tuple[int, bool, bool, bool, int]:
    """Return the key that sorts the tasks of a process, the best first."""
    assert match.task is not None
    rank, in_name = tasks[match.task].rank, re.findall(_RANK_IN_NAME, match.of.profile.file.path.name)
    named = bool(in_name) and rank == int(in_name[-1])
    return -match.placed.known, match.placed.how is not Placing.IN_ORDER, not named, match.task in taken, rank


def _joined(launches: pl.DataFrame, matches: Sequence[_Match]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the figures that kernels have (FIGURES), and JOIN of kernels by row and start."""
    numbered = launches.with_row_index("launch")
    sorts = numbered.unique("sort", keep="first", maintain_order=True).select(
        "sort", pl.col("key", "short_key").cast(pl.String), pl.col("class").cast(pl.String), *SHAPE
    )
    by_sort, by_class = _alike(sorts, matches)
    same, of_class = means(by_sort, ["sort"]), means(by_class, ["class"])
    exact = _completed(means(_exact(numbered, matches), ["launch"]), numbered, same)
    of_class = of_class.with_columns(registers=pl.lit(None, pl.Int64))
    figures = pl.concat([frame.select(list(FIGURES)) for frame in (exact, same, of_class)])
    before, keys = 0, []
    for frame, name in ((exact, "launch"), (same, "sort"), (of_class, "class")):
        keys.append(frame.select(name, pl.int_range(before, before + pl.len(), dtype=pl.UInt32).alias(f"of_{name}")))
        before += frame.height
    found = numbered.with_columns(pl.col("class").cast(pl.String))
    for frame in keys:
        found = found.join(frame, on=frame.columns[0], how="left", maintain_order="left")
    ways = {"of_launch": EXACT, "of_sort": SAME, "of_class": CLASS}
    how = pl.coalesce(pl.when(pl.col(c).is_not_null()).then(pl.lit(n, pl.UInt8)) for c, n in ways.items())
    return figures, found.select("row", "start", figures=pl.coalesce(list(ways)), joined=how)


def _exact(numbered: pl.DataFrame, matches: Sequence[_Match]) -> pl.DataFrame:
    """Return the figures of profiled kernels with the number of their `launch`."""
    parts = [pl.DataFrame(schema={"launch": pl.UInt32(), **FIGURES})]
    for match in matches:
        if match.task is not None:
            own = numbered.filter(pl.col("task") == match.task)["launch"]
            at = pl.Series(match.placed.at)
            launch = own.gather(at.set(at == NOWHERE, None))
            parts.append(match.keyed.select(launch.alias("launch"), *FIGURES))
    return pl.concat(parts).drop_nulls("launch")


def _completed(exact: pl.DataFrame, numbered: pl.DataFrame, same: pl.DataFrame) -> pl.DataFrame:
    """Fill each figure that the file of a launch lacks with the mean of the same kernel in other files."""
    sort = exact.join(numbered.select("launch", "sort"), on="launch", how="left", maintain_order="left")
    beside = sort.join(same, on="sort", how="left", maintain_order="left", suffix="_same")
    return beside.select("launch", *(pl.coalesce(c, f"{c}_same").alias(c) for c in FIGURES))


def _alike(sorts: pl.DataFrame, matches: Sequence[_Match]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the figures of profiled kernels, by their `sort` of kernel, and by their `class`.

    A kernel counts for a class by its name, even if the run has it with another grid, block or registers alone. Kernels
    without a known class count for none: they have nothing in common.
    """
    by_sort = [pl.DataFrame(schema={"sort": sorts.schema["sort"], **FIGURES})]
    by_class = [pl.DataFrame(schema={"class": pl.String(), **FIGURES})]
    for match in matches:
        shape = [c for c in SHAPE if match.keyed[c].null_count() < match.keyed.height]
        same = sorts.select("sort", pl.col(match.column).alias("key"), *shape)
        by_sort.append(match.keyed.join(same, on=["key", *shape], how="inner").select("sort", *FIGURES))
        known = sorts.filter(pl.col("class") != OTHER)
        classes = known.select(pl.col(match.column).alias("key"), "class").unique(maintain_order=True)
        by_class.append(match.keyed.join(classes, on="key", how="inner").select("class", *FIGURES))
    return pl.concat(by_sort), pl.concat(by_class)


def means(kernels: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return `by` and FIGURES of groups of profiled kernels, in order of the groups.

    Shares are weighted by the kernels' time, all else are plain means; `stall` is the reason of the most time.
    """
    weight = pl.col("ns").fill_null(1.0)
    plain = [c for c, t in FIGURES.items() if t == pl.Float64() and c not in SHARES]
    ordered = kernels.sort(*by, maintain_order=True)
    table = ordered.group_by(by, maintain_order=True).agg(
        pl.col(plain).mean(), pl.col("registers").max(), *(weighted_mean(c, weight) for c in SHARES)
    )
    return table.join(main_stall(ordered, by, weight), on=by, how="left", maintain_order="left").select(*by, *FIGURES)


def weighted_mean(column: str, weight: pl.Expr) -> pl.Expr:
    """Return the mean of a column over the rows that have it, null without any, to aggregate by."""
    weights = weight.filter(pl.col(column).is_not_null()).sum()
    return pl.when(weights > 0).then((pl.col(column) * weight).sum() / weights).alias(column)


def main_stall(kernels: pl.DataFrame, by: Sequence[str], weight: pl.Expr) -> pl.DataFrame:
    """Return `by` and the `stall` of most weight of each group of kernels."""
    sums = kernels.drop_nulls("stall").group_by(*by, "stall").agg(weight.sum().alias("weight"))
    ordered = sums.sort(*by, "weight", "stall", descending=[*[False] * len(by), True, False])
    return ordered.unique(by, keep="first", maintain_order=True).select(*by, "stall")


def _profiled(tasks: Sequence[AnalyzedTask], matches: Sequence[_Match]) -> pl.DataFrame:
    rows = [
        (
            match.of.profile.file.path.name,
            match.of.process,
            None if match.task is None else tasks[match.task].rank,
            len(match.placed.at),
            match.placed.known,
            int((match.placed.at != NOWHERE).sum()),
            match.placed.how.value,
            _first(match.placed.at),
            match.placed.places,
        )
        for match in matches
    ]
    return pl.DataFrame(rows, schema=PROFILED, orient="row")


def _first(at: Indices) -> int | None:
    """Return the number of the first launch that has a kernel of a profile, from 1 on."""
    placed = at[at != NOWHERE]
    return int(placed.min()) + 1 if len(placed) else None


def _remarks(matches: Sequence[_Match], tasks: Sequence[AnalyzedTask]) -> Iterator[str]:
    """Yield a remark for each part of the profiles that is not among the launches of a rank."""
    for match in matches:
        file, count = match.of.profile.file, len(match.placed.at)
        name, process = short(file.path.name), match.of.process
        if match.placed.how is Placing.MEANS_ALONE:
            yield (
                f"{name}: the kernels of process {process} count in means alone, since another process of the file has "
                "the launches of each rank that they fit"
            )
        elif match.task is None:
            ranks = few([str(task.rank) for task in tasks], NAMES_SHOWN)
            whose = f"of rank {file.rank}" if file.rank is not None else "of the reports"
            first = short(str(match.of.kernels["name"][0]))
            yield (
                f"{name}: none of the {count} kernels of process {process}, the first of which is {first!r}, is among "
                f"those {whose} (ranks {ranks}); compare names, grids and blocks, and write names by "
                "--print-kernel-base demangled"
            )
        elif match.placed.known < count:
            yield (
                f"{name}: {count - match.placed.known} of the {count} kernels of process {process} are not among those "
                f"of rank {tasks[match.task].rank} with this name, grid, block and registers"
            )
        if match.placed.how is Placing.FEW:
            yield f"{name}: no kernel of process {process} is taken for a launch of its own, since most are no rank's"
        if match.task is not None and match.placed.how is Placing.BY_OCCURRENCE:
            yield (
                f"{name}: the kernels of process {process} do not follow each other as rank {tasks[match.task].rank} "
                "launched them: the n-th of a name, grid, block and registers is taken for the n-th launch of it"
            )


def _places(matches: Sequence[_Match], tasks: Sequence[AnalyzedTask]) -> Iterator[str]:
    """Yield the place that was taken of each profile that fits at several."""
    for match in matches:
        if match.task is not None and match.placed.places > 1:
            of, rank = match.of, tasks[match.task].rank
            yield (
                f"{short(of.profile.file.path.name)}: the kernels of process {of.process} are those from launch "
                f"{_first(match.placed.at)} of rank {rank} on, the first of {match.placed.places} places that fit"
            )

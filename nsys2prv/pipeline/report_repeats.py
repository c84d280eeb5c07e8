"""Work of each report that repeats regularly: device work with its launches, and calls of MPI, in stored points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from nsys2prv.errors import not_written
from nsys2prv.families.device.correlation import FAMILY as CORRELATION
from nsys2prv.families.mpi.mpi_messages import TAKES_MESSAGE
from nsys2prv.families.registry import FAMILIES
from nsys2prv.model import event_types as types
from nsys2prv.pipeline.store.points import BEGIN
from nsys2prv.pipeline.store.spill import read_combinations, read_spill
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.partial_files import replacing
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.run.iterations.milestone_kinds import CALLS_OF_MPI, LAUNCHED_WORK, OPTIMIZER, milestone_kind
from nsys2prv.run.iterations.milestones import ReportRepeats
from nsys2prv.run.iterations.repeats import Repeating, repeating_work
from nsys2prv.run.iterations.window_of_interest import WantedWindow
from nsys2prv.run.report_summary import Spill, Summary

# Families of device work.
WORKING = frozenset(f.name for f in FAMILIES if f.work)
# Families whose calls may be a milestone.
CALLING = frozenset(f.name for f in FAMILIES if f.calls == "mpi")
# Event types of work and of calls that may be a milestone.
_COLLECTIVE, _MESSAGE = types.MPI["collective"].key, types.MPI["p2p"].key
_MILESTONES = (types.KERNEL.key, types.NCCL_KERNEL.key, types.GRAPH.key, _COLLECTIVE, _MESSAGE)
_KEY = ["place", "start"]
# Columns of stored work and calls; see LAUNCHED_WORK.
_POINT = ("start", "end", "place", "name", "bytes", "kind")


def wanted_window(name: str, workers: Workers) -> WantedWindow:
    """Return the window of interest of a name, for which the workers look for work that repeats if they must."""
    return WantedWindow(name, partial(repeats_of_run, workers))


def repeats_of_run(workers: Workers, summaries: Sequence[Summary]) -> list[ReportRepeats]:
    """Find the work of each report that repeats regularly. Raises OutputError when the disk takes no more.

    The points of the device work, and of the lines from calls to it, must be stored.
    """
    stored = workers.map(partial(store_repeating, workers.folder), enumerate(summaries))
    return list(workers.progress.track("looking for iterations", stored, len(summaries)))


@on_polars_thread
def store_repeating(folder: Path, report: tuple[int, Summary]) -> ReportRepeats:
    """Find the work of a report, given its number, that repeats regularly; its steps go to a file in `folder`."""
    number, summary = report
    processes, callers, found, steps = _repeating(summary)
    if steps.is_empty():
        return ReportRepeats(processes, callers, found, None)
    path = folder / f"{number:05}.steps.arrow"
    try:
        with replacing(path) as beside:
            steps.write_ipc(beside)
    except OSError as error:
        raise not_written(folder, error) from None
    return ReportRepeats(processes, callers, found, path)


def _repeating(summary: Summary) -> Repeating:
    """Find the work of a report that repeats regularly, in its stored points."""
    process_of = dict(summary.places.select("id", "process").drop_nulls().rows())
    launches = _launches(summary)
    work = _points_of(summary, WORKING if launches.height else frozenset())
    launching = {process_of[place] for place in launches["place"].unique() if place in process_of}
    if (first := _first_of_alike(summary.places))["id"].ne(first["first"]).any():
        place = pl.col("place").replace_strict(first["id"], first["first"], return_dtype=pl.UInt32)
        work, launches = work.with_columns(place), launches.with_columns(place)
    calls = _points_of(summary, CALLING).filter(pl.col("kind").is_in(CALLS_OF_MPI)).with_columns(launched="start")
    process = pl.col("place").replace_strict(process_of, default=None, return_dtype=pl.Int64).alias("process")
    every = pl.concat([work.join(launches, on=_KEY), calls.select(*_POINT, "launched")])
    rows = every.select(process, *(c for c in LAUNCHED_WORK if c != "process")).drop_nulls("process")
    return repeating_work(rows)._replace(processes=tuple(sorted(launching)))


def _points_of(summary: Summary, families: frozenset[str]) -> pl.DataFrame:
    """Return the stored points of some families of a report (_POINT)."""
    spills = [s for s in summary.spills if s.family in families and s.kind == "events"] if _may_repeat(summary) else []
    named = [(spill, _named(summary, read_combinations(spill))) for spill in spills]
    return pl.concat([pl.DataFrame(schema={c: LAUNCHED_WORK.get(c, pl.UInt32()) for c in _POINT}), *_points(named)])


def _may_repeat(summary: Summary) -> bool:
    """Return False if no work of the report can be a milestone: what it is need not be looked up, then."""
    return any(key in _MILESTONES for key in summary.slots)


def _first_of_alike(places: pl.DataFrame) -> pl.DataFrame:
    """Return each place's `id`, and `first`, the least id of the same place: parts of a report number them apart."""
    return places.select("id", first=pl.col("id").min().over([c for c in places.columns if c != "id"]))


def _launches(summary: Summary) -> pl.DataFrame:
    """Return the launch (ns) of each activity: place, start, launched."""
    found = [pl.DataFrame(schema={"place": pl.UInt32(), "start": pl.Int64(), "launched": pl.Int64()})]
    for spill in summary.spills:
        if spill.family == CORRELATION.name and spill.kind == "messages":
            for batch in range(len(spill.first)):
                lines = read_spill(spill, [batch])
                found.append(lines.select(place="to_place", start="received", launched="time"))
    return pl.concat(found)


def _named(summary: Summary, combinations: pl.DataFrame) -> pl.DataFrame:
    """Return name, bytes and kind of each combination, as in LAUNCHED_WORK; a name only where there is a kind."""
    milestones = [key for key in _MILESTONES if key in summary.slots]
    numbers = [summary.slots.index(key) for key in milestones]
    if not combinations["slot"].is_in(numbers).any():
        return pl.DataFrame(schema={c: LAUNCHED_WORK[c] for c in ("name", "bytes", "kind")}).clear(combinations.height)
    texts = (
        pl.DataFrame({"name": summary.labels.get(key, ())}, schema={"name": pl.String()})
        .with_row_index("value", offset=1)
        .select(pl.col("value").cast(pl.Int64), "name", key=pl.lit(key))
        for key in milestones
    )
    families = summary.labels.get(types.KERNEL_FAMILY.key, [])
    optimizer = pl.lit(families.index(OPTIMIZER) + 1 if OPTIMIZER in families else None, pl.Int64)
    keys = pl.Series("key", summary.slots, dtype=pl.String).gather(combinations["slot"])
    lacking = {t.key: pl.Int64() for t in (types.NCCL_BYTES, types.KERNEL_FAMILY) if t.key not in combinations.columns}
    full = combinations.with_columns(keys, *(pl.lit(None, kind).alias(key) for key, kind in lacking.items()))
    joined = full.join(pl.concat(texts), on=["key", "value"], how="left", maintain_order="left")
    named = joined.with_columns(
        milestone_kind(
            pl.col(types.KERNEL_FAMILY.key) == optimizer,
            pl.col("key") == types.GRAPH.key,
            pl.col("key") == types.NCCL_KERNEL.key,
            pl.col("key") == types.KERNEL.key,
            pl.col("key") == _COLLECTIVE,
            (pl.col("key") == _MESSAGE) & pl.col("name").str.contains(TAKES_MESSAGE),
        ),
    )
    name = pl.when(pl.col("kind").is_not_null()).then(pl.col("name").fill_null("unknown"))
    return named.select(name.cast(LAUNCHED_WORK["name"]), pl.col(types.NCCL_BYTES.key).alias("bytes"), "kind")


def _points(named: list[tuple[Spill, pl.DataFrame]]) -> Iterator[pl.DataFrame]:
    """Yield the work of stored points (_POINT), given what their combinations are."""
    for spill, names in named:
        for batch in range(len(spill.first)):
            begins = read_spill(spill, [batch]).filter(pl.col("phase") == BEGIN)
            times = begins.select("place", start="time", end=pl.col("time") + pl.col("length"))
            yield pl.concat([times, names[begins["combination"]]], how="horizontal").select(_POINT)

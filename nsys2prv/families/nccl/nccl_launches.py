"""NCCL calls and their kernels, returned as soon as no later slice of the report can change them.

CUDA graphs or threads of NCCL launch the kernels of some calls. A call that is captured into a graph runs nothing, and
every launch of the graph repeats it. The graph nodes that are created while a call is open are those that it captured.
A kernel names a clone of such a node, made when the graph was instantiated. A call on a non-blocking communicator
returns, and a thread made for it launches its kernels later. Only the end of a report shows if a process has such
threads: until then calls without kernels and kernels without calls are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.families.device_work import original_nodes
from nsys2prv.families.nccl.nccl_calls import MESSAGE_CALLS, launch_units, launched_by
from nsys2prv.families.nccl.nccl_gpus import gpus_of, on_gpus, until_last, with_several_gpus
from nsys2prv.families.source import Source, after
from nsys2prv.model.global_ids import process_of
from nsys2prv.report import schema

_NODE = ("process", "node")
_FOREVER = np.iinfo(np.int64).max


class SeveralGpus(NamedTuple):
    """NCCL's kernels and calls of `processes` that have NCCL kernels on several GPUs, kept until the last slice.

    Only that slice tells their GPUs. None: not known yet, or no rows.
    """

    processes: pl.Series | None = None
    kernels: pl.DataFrame | None = None
    calls: pl.DataFrame | None = None


class CapturedCalls(NamedTuple):
    """Calls that CUDA graphs captured, and the graph `nodes` that they created: process, node, and unit of the calls.

    None: none yet.
    """

    nodes: pl.DataFrame | None = None
    calls: pl.DataFrame | None = None

    def kept(self, done: pl.Series, first: int) -> CapturedCalls:
        """Return those that later slices may launch again: of the units that are `done`, or below `first`.

        The calls of all others are not settled, and come again.
        """
        if self.nodes is None or self.calls is None:
            return self
        nodes = self.nodes.filter(pl.col("unit").is_in(done.implode()) | (pl.col("unit") < first))
        return CapturedCalls(nodes, self.calls.filter(pl.col("unit").is_in(nodes["unit"].implode())))


class Unconnected(NamedTuple):
    """NCCL's `calls` without kernels and `kernels` without calls, kept until the last slice.

    Threads of NCCL's own may connect them. `callers`: the threads that call NCCL (globalTid). None: none yet.
    """

    callers: pl.DataFrame | None = None
    calls: pl.DataFrame | None = None
    kernels: pl.DataFrame | None = None


class Unsettled(NamedTuple):
    """Calls and kernels that later slices settle, and the facts from earlier slices for that. None: none yet.

    `kernels`, `calls`: not settled, with the columns that `settle` is given; `next_unit`: the first free number of a
    unit; `ran`: counts of runs of each operation, which number them.
    """

    kernels: pl.DataFrame | None = None
    calls: pl.DataFrame | None = None
    next_unit: int = 1
    ran: pl.DataFrame | None = None
    several: SeveralGpus = SeveralGpus()
    captured: CapturedCalls = CapturedCalls()
    unconnected: Unconnected = Unconnected()

    @property
    def begun(self) -> bool:
        """Return True if an earlier slice had calls or kernels to settle."""
        return self.kernels is not None


class Settled(NamedTuple):
    """Calls and kernels with all their facts, each once over all slices.

    Calls have the columns of nccl_calls and launch_units, and further ones. `captured`: a graph captured the call, and
    it ran nothing then; `repeated`: it is a copy for a launch of the graph, with the time and thread of that launch and
    a unit of its own; `at`, `origin`: start and unit of the call as a thread made it. `device`: see on_gpus. `number`:
    of a collective on its communicator in its process (on that GPU), of a message among those of its kind and peer,
    null where nothing ran or the communicator is not known; `sequence`: that of collectives.
    """

    # The calls as threads made them.
    begun: pl.DataFrame
    # These, and a copy of each captured operation for each launch of its graph with known kernels. Operations whose
    # kernels a thread of NCCL's own may launch come with the last slice.
    calls: pl.DataFrame
    # NCCL's kernels, with the columns of Source.device_work.
    kernels: pl.DataFrame
    # For each kernel the unit of the calls that launched it; null: none.
    units: pl.Series
    # For each kernel the `device` of these calls: see gpus_of.
    devices: pl.Series
    # The processes with NCCL kernels on several GPUs.
    several: pl.Series


def settle(source: Source, state: Unsettled, kernels: pl.DataFrame, calls: pl.DataFrame) -> tuple[Settled, Unsettled]:
    """Return the calls and kernels that this slice settles, and those that it leaves to later slices.

    `kernels`: NCCL's of the slice, as of Source.device_work; `calls`: see nccl_calls.
    """
    columns, first, held = calls.columns, state.next_unit, state.several
    several = with_several_gpus(source, kernels) if held.processes is None else held.processes
    kernels, held_kernels = until_last(source, held.kernels, kernels, process_of(pl.col("globalPid")), several)
    calls, held_calls = until_last(source, held.calls, calls, process_of(pl.col("globalTid")), several)
    kernels = after(state.kernels, kernels)
    calls = launch_units(after(state.calls, calls), first)
    every, units, captured = _with_repeats(source, state, kernels, calls)
    done = _settled_units(source, every)
    is_done, known = pl.col("unit").is_in(done.implode()), units.is_null() | units.is_in(done.implode())
    left = state._replace(
        kernels=kernels.filter(~known),
        calls=calls.filter(~is_done).select(columns),
        next_unit=max(first, int(every["unit"].max() or 0) + 1),  # type: ignore[arg-type]
        several=SeveralGpus(several, held_kernels, held_calls),
        captured=captured.kept(done, first),
    )
    kernels, units = kernels.filter(known), units.filter(known)
    settled, ran = _numbered(on_gpus(every.filter(is_done), kernels, units, several), state.ran)
    begun, devices = settled.filter(~pl.col("repeated")), gpus_of(kernels, units, settled)
    return _with_own_threads(source, left._replace(ran=ran), Settled(begun, settled, kernels, units, devices, several))


def _with_repeats(
    source: Source, state: Unsettled, kernels: pl.DataFrame, calls: pl.DataFrame
) -> tuple[pl.DataFrame, pl.Series, CapturedCalls]:
    """Return calls with what Settled says of captures, also those that graphs repeat, and the captured ones up to here.

    `calls` have launch units. With them comes the unit of each kernel; null: no call launched it.
    """
    units, first = launched_by(kernels, calls), state.next_unit
    nodes = _captured_nodes(source, state.captured.nodes, calls)
    made = calls.with_columns(
        captured=pl.col("unit").is_in(nodes["unit"].implode()),
        repeated=pl.lit(False),
        at=pl.col("start"),
        origin=pl.col("unit"),
    )
    if nodes.is_empty():
        return made, units, state.captured
    launches = _launches(source, kernels, nodes, first + calls.height)
    captured = after(state.captured.calls, made.filter("captured"))
    repeats = _repeats(captured, launches)
    # Calls that are no operations repeat nothing.
    carried = pl.col("repeat").is_in(repeats["unit"].implode())
    units = launches.select(pl.when(carried).then("repeat").otherwise(units)).to_series()
    return pl.concat([made, repeats]), units, CapturedCalls(nodes, captured)


def _captured_nodes(source: Source, earlier: pl.DataFrame | None, calls: pl.DataFrame) -> pl.DataFrame:
    """Return nodes of graphs that calls up to here captured: process, node, and the unit of the calls."""
    created = source.table(schema.GRAPH_NODE_EVENTS).filter(pl.col("originalGraphNodeId").is_null())
    made = created.select(
        process=process_of(pl.col("globalTid")), node="graphNodeId", caller="globalTid", called="start"
    )
    made = made.with_columns(unit=launched_by(made, calls)).drop_nulls("unit").select(*_NODE, "unit")
    return after(earlier, made).unique(_NODE, keep="first", maintain_order=True)


def _launches(source: Source, kernels: pl.DataFrame, nodes: pl.DataFrame, first: int) -> pl.DataFrame:
    """Return for each kernel its captured `unit`, caller and called of its graph's launch, and their `repeat`.

    `repeat` numbers unit and launch from `first` on; null for kernels of no graph.
    """
    original = original_nodes(source.table, kernels["globalPid"], kernels["graphNodeId"])
    wanted = kernels.select(
        "caller", "called", process=process_of(pl.col("globalPid")), node=original.fill_null(kernels["graphNodeId"])
    )
    joined = wanted.join(nodes, on=_NODE, how="left", maintain_order="left")
    known = pl.all_horizontal(pl.col("unit", "caller", "called").is_not_null())
    return joined.with_columns(
        repeat=pl.when(known).then(pl.struct("called", "caller", "unit").rank("dense").cast(pl.Int64) + first)
    )


def _repeats(captured: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Return the captured operations once for each launch of their graph."""
    distinct = launches.unique("repeat").drop_nulls("repeat").select("unit", "repeat", "caller", "called")
    repeats = captured.filter(pl.col("operation").is_not_null()).join(distinct, on="unit").with_columns(
        unit="repeat",
        globalTid="caller",
        start="called",
        end="called",
        top=pl.lit(False),
        open=pl.lit(0, pl.Int64),
        captured=pl.lit(False),
        repeated=pl.lit(True),
    )  # fmt: skip
    return repeats.select(captured.columns).sort("start", "at")


def _settled_units(source: Source, calls: pl.DataFrame) -> pl.Series:
    """Return the units of calls that have ended, together with all earlier calls of their process.

    Their operations can be numbered in the order of time.
    """
    over = (pl.col("end").max() < source.slice.until) & (pl.col("open").last() == 0) | source.slice.last
    units = calls.group_by("unit", maintain_order=True).agg(
        process=process_of(pl.col("globalTid").first()),
        first=pl.col("start").min(),
        last=pl.col("start").max(),
        over=over,
    )
    units = units.sort("process", "first")
    reach = pl.when("over").then("last").otherwise(_FOREVER).cum_max()
    apart = (pl.col("first") > reach.shift(1).over("process")).fill_null(True)
    return units.filter(pl.col("over").all().over(apart.cum_sum()))["unit"]


def _numbered(calls: pl.DataFrame, ran_before: pl.DataFrame | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Add `number` to calls in the order in which they ran, after earlier slices. Return also the counts of runs."""
    message = pl.col("operation").is_in(MESSAGE_CALLS)
    ran = pl.all_horizontal(pl.col("operation", "communicator").is_not_null()) & ~pl.col("captured")
    key = ("process", "device", "communicator", "kind", "to")
    keyed = calls.with_columns(
        process=process_of(pl.col("globalTid")),
        kind=pl.when(message).then("operation"),
        to=pl.when(message).then("peer"),
    )
    none = keyed.select(key).clear().with_columns(ran=pl.lit(0, pl.Int64))
    before = none if ran_before is None else ran_before
    nth = ran.cast(pl.Int64).cum_sum().over(key, order_by=["start", "globalTid", "at"])
    joined = keyed.join(before, on=key, how="left", nulls_equal=True, maintain_order="left")
    here = keyed.filter(ran).group_by(key).agg(ran=pl.len().cast(pl.Int64))
    number = pl.when(ran).then(nth + pl.col("ran").fill_null(0))
    numbered = joined.select(*calls.columns, number=number, sequence=pl.when(~message).then(number))
    return numbered, pl.concat([before, here]).group_by(key).agg(pl.col("ran").sum())


def _with_own_threads(source: Source, state: Unsettled, settled: Settled) -> tuple[Settled, Unsettled]:
    """Keep calls and kernels that threads of NCCL's own may connect until the last slice."""
    calls, kernels, units, held = settled.calls, settled.kernels, settled.units, state.unconnected
    callers = after(held.callers, settled.begun.select("globalTid")).unique()
    elsewhere = ~pl.col("caller").is_in(callers["globalTid"].implode())
    alone = kernels.select(units.is_null() & pl.col("graphNodeId").is_null() & elsewhere.fill_null(False)).to_series()
    ran = pl.col("operation").is_not_null() & ~pl.col("captured") & ~pl.col("repeated")
    waits = calls.select(ran & ~pl.col("unit").is_in(units.drop_nulls().unique().implode())).to_series()
    waiting, without = after(held.calls, calls.filter(waits)), after(held.kernels, kernels.filter(alone))
    rest = settled._replace(
        calls=calls.filter(~waits),
        kernels=kernels.filter(~alone),
        units=units.filter(~alone),
        devices=settled.devices.filter(~alone),
    )
    left = state._replace(unconnected=Unconnected(callers, waiting, without))
    if not source.slice.last:
        return rest, left
    every = rest._replace(
        calls=pl.concat([rest.calls, waiting]),
        kernels=pl.concat([rest.kernels, without]),
        units=pl.concat([rest.units, _of_own_threads(without, waiting, callers["globalTid"])]),
        devices=rest.devices.extend_constant(None, without.height),
    )
    return every, left


def _of_own_threads(kernels: pl.DataFrame, calls: pl.DataFrame, threads: pl.Series) -> pl.Series:
    """Return the unit of each kernel that a thread of NCCL's own, none of `threads`, launched; null for others.

    It is known if such launches and the units without launches alternate in a process: a unit's kernels are launched
    before the next unit begins. A launch is all that one thread launched.
    """
    process = process_of(pl.col("globalTid"))
    turns = calls.group_by(process.alias("process"), "unit").agg(time=pl.col("start").min())
    alone = kernels.filter(~pl.col("caller").is_in(threads.implode()))
    launches = alone.group_by("caller").agg(time=pl.col("called").min())
    launches = launches.with_columns(process=process_of(pl.col("caller")))
    ordered = pl.concat([turns, launches], how="diagonal").sort("process", "time", "unit")
    taking_turns = (pl.col("caller").is_not_null() == (pl.int_range(pl.len()) % 2 == 1)).all() & (pl.len() % 2 == 0)
    known = ordered.with_columns(unit=pl.col("unit").shift(1).over("process"))
    of_thread = known.filter(taking_turns.over("process")).drop_nulls("caller").select("caller", "unit")
    return kernels.select("caller").join(of_thread, on="caller", how="left", maintain_order="left")["unit"]

"""NCCL calls whose kernels they do not launch themselves: CUDA graphs do, or threads of NCCL's.

A call that was captured into a graph ran nothing, and every launch of the graph repeats it. What a call captured is
known by the nodes that were created while it was open. A kernel names a clone of such a node, made when the graph was
instantiated. A call on a non-blocking communicator returns, and a thread made for it launches its kernels later.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.activities.family import Source
from nsys2prv.activities.nccl_calls import RECV, SEND, launched_by
from nsys2prv.activities.relations import original_nodes
from nsys2prv.report import schema

_NODE = ("process", "node")


def executed(source: Source, kernels: pl.DataFrame, calls: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Calls with those that graphs repeated below, and the unit of calls that launched each kernel (null: none).

    Added to calls are `captured` and `repeated`. What is repeated has the time and thread of the graph's launch, and a
    unit for each. Sequences are counted anew: captured calls have none.
    """
    units = launched_by(kernels, calls)
    created = source.table(schema.GRAPH_NODE_EVENTS).filter(pl.col("originalGraphNodeId").is_null())
    made = created.select(
        process=pl.col("globalTid") // (1 << 24), node="graphNodeId", caller="globalTid", called="start"
    )
    made = made.with_columns(unit=launched_by(made, calls)).drop_nulls("unit").unique(_NODE, keep="first")
    calls = calls.with_columns(
        captured=pl.col("unit").is_in(made["unit"].unique().implode()), repeated=pl.lit(False), at=pl.col("start")
    )
    units = units.fill_null(_of_own_threads(kernels, calls, units))
    if made.is_empty():
        return calls, units
    launches = _launches(source, kernels, made, first=int(calls["unit"].max()) + 1)  # type: ignore[arg-type]
    distinct = launches.unique("repeat").drop_nulls("repeat").select("unit", "repeat", "caller", "called")
    repeats = calls.filter(pl.col("operation").is_not_null()).join(distinct, on="unit").with_columns(
        unit="repeat",
        globalTid="caller",
        start="called",
        end="called",
        top=pl.lit(False),
        captured=pl.lit(False),
        repeated=pl.lit(True),
    )  # fmt: skip
    every = pl.concat([calls, repeats.select(calls.columns).sort("start", "at")])
    return every.with_columns(sequence=_sequence()), launches["repeat"].fill_null(units)


def _of_own_threads(kernels: pl.DataFrame, calls: pl.DataFrame, units: pl.Series) -> pl.Series:
    """Unit of each kernel that was launched by a thread of NCCL's own; null for the others.

    It is known where in a process such launches and the units that launched nothing take turns: when a unit's kernels
    were launched before the next began. A launch is all that one thread launched.
    """
    process = pl.col("globalTid") // (1 << 24)
    waiting = calls.filter(pl.col("operation").is_not_null() & ~pl.col("captured"))
    waiting = waiting.filter(~pl.col("unit").is_in(units.drop_nulls().unique().implode()))
    turns = waiting.group_by(process.alias("process"), "unit").agg(time=pl.col("start").min())
    threads = calls["globalTid"].unique().implode()
    unknown = units.is_null() & kernels["graphNodeId"].is_null()
    alone = kernels.filter(unknown & ~pl.col("caller").is_in(threads)).drop_nulls("caller")
    launches = alone.group_by("caller").agg(time=pl.col("called").min())
    launches = launches.with_columns(process=pl.col("caller") // (1 << 24))
    ordered = pl.concat([turns, launches], how="diagonal").sort("process", "time", "unit")
    taking_turns = (pl.col("caller").is_not_null() == (pl.int_range(pl.len()) % 2 == 1)).all() & (pl.len() % 2 == 0)
    known = ordered.with_columns(unit=pl.col("unit").shift(1).over("process"))
    of_thread = known.filter(taking_turns.over("process")).drop_nulls("caller").select("caller", "unit")
    return kernels.select("caller").join(of_thread, on="caller", how="left", maintain_order="left")["unit"]


def _launches(source: Source, kernels: pl.DataFrame, made: pl.DataFrame, first: int) -> pl.DataFrame:
    """Of each kernel the captured `unit` that it is of, caller and called of its graph's launch, and their `repeat`.

    `repeat` is a number from `first` on of unit and launch; null for what is of no graph.
    """
    original = original_nodes(source.table, kernels["globalPid"], kernels["graphNodeId"])
    nodes = kernels.select(
        "caller", "called", process=pl.col("globalPid") // (1 << 24), node=original.fill_null(kernels["graphNodeId"])
    )
    joined = nodes.join(made.select(*_NODE, "unit"), on=_NODE, how="left", maintain_order="left")
    known = pl.all_horizontal(pl.col("unit", "caller", "called").is_not_null())
    return joined.with_columns(
        repeat=pl.when(known).then(pl.struct("called", "caller", "unit").rank("dense").cast(pl.Int64) + first)
    )


def _sequence() -> pl.Expr:
    """Number of each collective that ran, on its communicator in its process."""
    ran = pl.col("operation").is_not_null() & ~pl.col("operation").is_in([SEND, RECV]) & ~pl.col("captured")
    counted = ran.cast(pl.Int64).cum_sum()
    owner = (pl.col("globalTid") // (1 << 24), "communicator")
    return pl.when(ran).then(counted.over(*owner, order_by=["start", "globalTid", "at"]))

"""Labels of host work: the phase and the call that fill most of it, or what it launches at its end."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import TEXT, Run
from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.edges import EdgeKind
from nsys2prv.analysis.interval_frames import covered
from nsys2prv.analysis.iterations.phases import phase_ranges
from nsys2prv.families.nvtx.range_patterns import pattern_of
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans, overlapping

# Lowest part of a piece of host work that its label fills, and shortest piece (ns) that is labeled.
LEAST_FILLED_SHARE, SHORTEST_LABELED_NS = 0.5, 2_000
# Begin of the label of work that is known by what it launches at its end.
BEFORE_LAUNCH = "launching "
# How a host is late whose work comes before launches of many kernels.
AT_MANY_PLACES = "slow at many places"
_OF_HOST = (EdgeKind.HOST, EdgeKind.CALL, EdgeKind.EXCHANGE, EdgeKind.HANDOVER)


def host_labels(run: Run, graph: Graph, main: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return node and `label` (TEXT) of the pieces of host work of which something is known and that are not short.

    Labels are `load (nanosleep)`, `load`, `nanosleep`, and without a phase or call `launching NAME`.

    `main`: ranges of the main threads; `steps`: OCCURRENCE of the iterations.
    """
    nodes = np.flatnonzero(np.isin(graph.binds, _OF_HOST) & (graph.lag() >= SHORTEST_LABELED_NS))
    pieces = pl.DataFrame(
        {
            "node": nodes,
            "task": graph.task[nodes].astype(np.int64),
            "row": graph.chain[nodes].astype(np.int64),
            "start": graph.time[graph.binding[nodes]],
            "end": graph.time[nodes],
        }
    )
    phases = phase_ranges(main, steps).select("task", "start", "end", name=pattern_of(pl.col("text")))
    phase = _filling(pieces, phases, "task")
    # A call of CUDA makes calls of the system, such as `ioctl`, and says more.
    of_system, of_cuda = (_filling(pieces, _calls(run, kind), "row") for kind in ("os", "cuda"))
    first = graph.first_launched()
    launched = first.select("node", run.work["name"].cast(pl.String).gather(first["work"]).alias("launches"))
    named = pieces.select("node", phase, call=of_cuda.zip_with(of_cuda.is_not_null(), of_system)).join(
        launched, on="node", how="left"
    )
    by_launch = pl.format(f"{BEFORE_LAUNCH}{{}}", "launches")
    label = pl.coalesce(pl.format("{} ({})", "name", "call"), "name", "call", by_launch)
    return named.select("node", label=label.cast(TEXT)).drop_nulls()


def call_of(label: str) -> str:
    """Return the call of a label, alone or behind a phase: `nanosleep` of `load (nanosleep)`."""
    return label.removesuffix(")").rpartition(" (")[2] if label.endswith(")") else label


def _calls(run: Run, kind: str) -> pl.DataFrame:
    own = run.calls.select("row", "start", "end", "name", "kind").filter(pl.col("kind") == kind)
    return own.drop("kind")


def _filling(pieces: pl.DataFrame, named: pl.DataFrame, by: str) -> pl.Series:
    """Return for each piece the name of the interval that overlaps with it most, if it fills enough; else null.

    `named`: `by`, start, end and name, in order of start within one `by`. Those of one `by` do not overlap with each
    other, or in parts that matter little.
    """
    groups = pieces[by].unique().sort()
    intervals = named.filter(pl.col(by).is_in(groups.implode())).sort(by, maintain_order=True)
    names = pl.repeat(None, pieces.height, dtype=pl.String, eager=True).alias("name")
    if intervals.is_empty():
        return names
    axis = axis_over(covered(pieces), len(groups))
    sides = []
    for frame in (pieces, intervals):
        group = np.searchsorted(groups, frame[by])
        sides.append(Spans(*(axis.at(group, frame[c].to_numpy()) for c in ("start", "end"))))
    own, others = sides
    piece, over = overlapping(own, others)
    inside = np.minimum(own.end[piece], others.end[over]) - np.maximum(own.start[piece], others.start[over])
    pairs = pl.DataFrame({"at": piece, "name": intervals["name"].gather(over), "inside": inside})
    sums = pairs.group_by("at", "name", maintain_order=True).agg(pl.col("inside").sum())
    most = pl.col("inside").arg_max()
    longest = sums.group_by("at", maintain_order=True).agg(pl.col("name").get(most), pl.col("inside").get(most))
    length = (pieces["end"] - pieces["start"]).gather(longest["at"])
    filled = longest.filter(longest["inside"] >= LEAST_FILLED_SHARE * length)
    return names.scatter(filled["at"], filled["name"].cast(pl.String))

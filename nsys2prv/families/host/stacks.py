"""Stacks of calls by depth: label numbers for an event type a depth."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from nsys2prv.families.source import Source
from nsys2prv.model.event_type import EventType
from nsys2prv.model.losses import Loss

COLUMNS = ("id", "symbol", "module", "unresolved", "stackDepth")
NO_STACK = "(no stack)"
# Entries of the profiler at the end of an incomplete stack: `[Broken backtraces]`, `[Max depth]`.
NOTE = r"^\[.*\]$"


def stack_labels(
    source: Source, ids: pl.Series, stacks: pl.DataFrame, event_types: Mapping[int, EventType]
) -> pl.DataFrame:
    """Return label numbers of the functions in stacks: a column for each depth of `event_types`, named by its key.

    `ids`: the wanted stacks, in the order of the rows to return. `stacks` has COLUMNS. A stack without a function
    at the first depth of all has NO_STACK there. Stacks that go deeper than the last are counted.
    """
    return depth_labels(
        source, ids, named_entries(source, stacks.filter(pl.col("id").is_in(ids.unique().implode()))), event_types
    )


def depth_labels(
    source: Source, ids: pl.Series, named: pl.DataFrame, event_types: Mapping[int, EventType]
) -> pl.DataFrame:
    """Return the same as stack_labels, from stacks with names: columns id, stackDepth, name."""
    last = max(event_types)
    deeper = named.filter(pl.col("stackDepth") > last)["id"].n_unique()
    source.tally.count(Loss.DEEP_STACK, deeper, last + 1)
    columns = []
    for depth, event_type in sorted(event_types.items()):
        here = named.filter(pl.col("stackDepth") == depth).unique("id", keep="first").select("id", "name")
        names = ids.to_frame("id").join(here, on="id", how="left", maintain_order="left")["name"]
        if depth == min(event_types):
            names = names.fill_null(NO_STACK)
        columns.append(source.labels.ids(event_type.key, names).alias(event_type.key))
    return pl.DataFrame(columns)


def named_entries(source: Source, stacks: pl.DataFrame) -> pl.DataFrame:
    """Return the stacks' entries (COLUMNS) with `name`, the function, or the module if that is unknown; and `file`.

    `file` is the module's, without its folders. Notes of the profiler are left out.
    """
    source.count_missing_texts(stacks["symbol"])
    key = ["symbol", "module", "unresolved"]
    distinct = stacks.select(key).unique(maintain_order=True)
    module = source.texts(distinct["module"]).str.replace(r"^.*/", "").fill_null("?")
    symbol = source.texts(distinct["symbol"])
    names = distinct.with_columns(
        name=pl.when(pl.col("unresolved") != 0).then(pl.format("[{}]", module)).otherwise(symbol),
        file=module,
        note=(pl.col("unresolved") == 0) & symbol.str.contains(NOTE),
    )
    return stacks.join(names, on=key, how="left", nulls_equal=True, maintain_order="left").filter(~pl.col("note"))

"""CUDA graphs by node and whole, and when they were made."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import polars as pl
import pytest

import nsys2prv
from nsys2prv import Selection
from nsys2prv.families.device.graphs import HIDDEN_KERNELS
from nsys2prv.model import event_types as types

NODE, GRAPH = "single/graph-node.sqlite", "single/graph-graph.sqlite"


def test_executions_have_graph_and_instance(translated):
    _, trace = translated(GRAPH, "graphs")
    for kind, value in ((types.GRAPH_ID, 1), (types.GRAPH_EXEC, 2)):
        assert trace.intervals(kind.number)["value"].to_list() == [value] * 20
    assert trace.intervals(types.GRAPH.number)["label"].to_list() == ["graph 1"] * 20


def test_hidden_kernels_are_told(translated):
    result, _ = translated(GRAPH)
    assert f"{HIDDEN_KERNELS} [graph-graph]" in result.warnings
    assert "--cuda-graph-trace=node" in HIDDEN_KERNELS
    assert not translated(NODE)[0].warnings


def test_kernels_name_their_node_and_the_one_it_was_cloned_from(translated):
    _, trace = translated(NODE, "kernels")
    for kind, graph in ((types.GRAPH_NODE, 2), (types.GRAPH_ORIGINAL, 1)):
        nodes = trace.intervals(kind.number).group_by("value").len().sort("value")
        assert nodes.rows() == [((graph << 32) + n, 20) for n in range(6)]


def test_creation_before_the_first_call_does_not_stretch_the_trace(translated):
    result, _ = translated(NODE, "cuda_api", "graph_creation")
    alone, _ = translated(NODE, "cuda_api")
    assert result.dropped["graph_creation"] == {"before the first CUDA call of the report": 19}
    assert result.duration_ns == alone.duration_ns
    assert alone.off["graph_creation"] == 19


@pytest.mark.parametrize(
    ("name", "table", "expected"),
    [
        (NODE, "CUDA_GRAPH_NODE_EVENTS", {"Node created": 13, "Node cloned": 6}),
        (GRAPH, "CUDA_GRAPH_EVENTS", {"Graph created": 3, "Graph instantiated": 1}),
    ],
)
def test_creation_within_what_was_captured(report, tmp_path, name, table, expected):
    copy = tmp_path / "copy.sqlite"
    shutil.copyfile(report(name), copy)
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute(f"UPDATE {table} SET start = start + 600000000, end = end + 600000000")
        connection.commit()
    selection = Selection(("cuda_api", "graph_creation"))
    result = nsys2prv.translate(copy, tmp_path / "out", selection=selection)
    assert result.prv is not None
    trace = nsys2prv.read_prv(result.prv)
    made = trace.intervals(types.GRAPH_CREATION.number)
    assert dict(made.group_by("label").len().iter_rows()) == expected
    # They are the thread's that made the calls, and have no length.
    assert set(made["thread"]) == {1}
    assert (made.select(pl.col("end") - pl.col("start")).to_series() == 1).all()

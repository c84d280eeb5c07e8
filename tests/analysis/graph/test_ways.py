"""Sums by label along ways against a plain walk, on random graphs with long ways that share their nodes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nsys2prv.analysis.graph.nodes import NO_NODE
from nsys2prv.analysis.graph.ways import STRIDE, find_ways

NODES, TASKS, LABELS = 3000, 3, 4


@pytest.mark.parametrize("back", [1, 3, 400], ids=["a chain a task", "short branches", "any node"])
def test_sums_of_ways_are_those_of_a_plain_walk(back: int) -> None:
    dice = np.random.default_rng(back)
    task = np.sort(dice.integers(0, TASKS, NODES)) if back == 1 else dice.integers(0, TASKS, NODES)
    time = np.cumsum(dice.integers(1, 9, NODES))
    binding = np.maximum(np.arange(NODES) - dice.integers(1, back + 1, NODES), NO_NODE).astype(np.int32)
    label = dice.integers(0, LABELS, NODES).astype(np.int16)
    lag = np.where(binding == NO_NODE, 0, time - time[binding])
    graph = SimpleNamespace(binding=binding, task=task, time=time, lag=lambda: lag)
    ways = find_ways(graph, label, LABELS)  # type: ignore[arg-type]
    longest, sums = 0, ways.sums_from(np.arange(NODES))
    for node in range(NODES):
        expected, at, steps = [0] * LABELS, node, 0
        while True:
            before = int(binding[at])
            expected[label[at]] += 0 if before == NO_NODE else int(time[at] - time[before])
            if before == NO_NODE or task[before] != task[at]:
                break
            at, steps = before, steps + 1
        longest = max(longest, steps)
        assert (sums[node].tolist(), ways.first[node]) == (expected, at)
    assert back > 1 or longest > 3 * STRIDE

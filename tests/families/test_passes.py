"""Numbers of iterations that begin again: how many times each came before."""

from __future__ import annotations

import polars as pl
import pytest

from nsys2prv.families.nvtx.passes import repeats_of

# Texts of one task in the order of time (those of the second task after `|`), and the repeats.
PASSES = {
    "step 0, step 1, step 2": [0, 0, 0],
    "step 0, step 1, step 0, step 1": [0, 0, 1, 1],
    # Recording begins within the first epoch.
    "step 2, step 3, step 0, step 1, step 2, step 3": [0, 0, 1, 1, 1, 1],
    "epoch 0 step 2, epoch 1 step 0, epoch 1 step 1, epoch 2 step 0": [0, 1, 1, 2],
    # The second rank begins to record one step later, or in the second epoch.
    "step 2, step 3, step 0, step 1, step 2, step 3 | step 3, step 0, step 1, step 2, step 3": [
        *(0, 0, 1, 1, 1, 1),
        *(0, 1, 1, 1, 1),
    ],
    "epoch 0 step 1, epoch 1 step 0, epoch 1 step 1 | epoch 1 step 0, epoch 1 step 1": [0, 1, 1, 1, 1],
    # One rank tries a step again.
    "step 0, step 1, step 1, step 2 | step 0, step 1, step 2": [0, 0, 1, 0, 0, 0, 0],
    # In no order: the number counts that came before.
    "step 3, step 1, step 2, step 0, step 2, step 0, step 3, step 1": [0, 0, 0, 0, 1, 1, 1, 1],
    "step 1, step 0, step 1, step 0 | step 0, step 1, step 0, step 1": [0, 0, 1, 1, 0, 0, 1, 1],
    # Numbers in no order that never come again.
    "step 4, step 1, step 3": [0, 0, 0],
}


def ranges_of(texts: str) -> pl.DataFrame:
    rows = [
        (task, text.rpartition(" ")[0], 10 * n, int(text.rpartition(" ")[2]))
        for task, own in enumerate(texts.split(" | "))
        for n, text in enumerate(own.split(", "))
    ]
    return pl.DataFrame(rows, schema=["task", "stem", "start", "number"], orient="row")


@pytest.mark.parametrize(("texts", "repeats"), PASSES.items(), ids=range(len(PASSES)))
def test_numbers_that_come_again_belong_to_another_pass(texts: str, repeats: list[int]) -> None:
    ranges = ranges_of(texts)
    assert repeats_of(ranges).to_list() == repeats
    assert repeats_of(ranges.reverse()).to_list() == repeats[::-1]

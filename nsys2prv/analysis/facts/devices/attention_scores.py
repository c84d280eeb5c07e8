"""Kernels on the scores of attention, which fused attention does without: softmax, and what scales or masks for it."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.devices.scalar_products import is_product
from nsys2prv.analysis.facts.kernel_families import COPIES, ELEMENTWISE
from nsys2prv.analysis.facts.thresholds import PASS, SOFTMAX, SOFTMAX_LAUNCHES

CLASS, LOSS = "softmax", "loss"


@once
def kernels_on_scores(case: Case) -> pl.DataFrame:
    """Return kernels on scores: `work` (row of Run.work), `softmax`, name, start and `ns`; nothing where they are few.

    These are softmax kernels of layers, and the elementwise ones, casts and copies in a row with them between the two
    matrix products of attention, if each takes no longer than a pass over scores may (PASS): masks, scales and casts.
    They are few where softmax alone takes less than a loss may (SOFTMAX). Without iterations there are none.
    """
    found = _between_products(case, _of_layers(case))
    softmax = int(found.filter("softmax")["ns"].sum())
    few = not case.analysis.window.iterations or case.share_of_compute(softmax) < SOFTMAX.value
    return found.clear() if few else found


def _of_layers(case: Case) -> pl.Series:
    """Return the softmax kernels of the window (rows of Run.work) without those of a loss or of a token.

    A loss or the choice of a token takes one softmax each time, a model's layers several of one grid.
    """
    known = case.kernels.filter(pl.col("class").is_in([CLASS, LOSS]))
    losses = known.filter(pl.col("class") == LOSS).group_by("device", "name").len()["len"].max()
    least = max(SOFTMAX_LAUNCHES.value * case.step_count, int(losses or 0) + 1)  # type: ignore[arg-type]
    softmax = known.filter(pl.col("class") == CLASS)
    return softmax.filter(pl.len().over("device", "name", "shape") >= least)["work"]


def _between_products(case: Case, softmax: pl.Series) -> pl.DataFrame:
    """Return the columns of kernels_on_scores for some softmax kernels (rows of Run.work)."""
    of_layer = pl.col("work").is_in(softmax.implode())
    on_scores = (of_layer | pl.col("family").is_in([ELEMENTWISE, COPIES])).fill_null(False)
    stream = ["device", "row"]
    columns = (*stream, "work", "name", "start", "ns")
    ordered = case.ordered.select(*columns, product=is_product(), softmax=of_layer, on_scores=on_scores & ~is_product())
    ordered = ordered.with_columns(chain=pl.struct(*stream, "on_scores").rle_id())
    before, after = (pl.col("product").shift(n, fill_value=False).over(stream) for n in (1, -1))
    ordered = ordered.with_columns(before=before, after=after)
    enclosed = (pl.col("before").first() & pl.col("after").last()).over("chain")
    longest = pl.col("ns").filter("softmax").max().over("chain")
    chosen = pl.col("softmax") | (pl.col("on_scores") & enclosed & (pl.col("ns") <= PASS.value * longest))
    return ordered.filter(chosen).select("work", "softmax", "name", "start", "ns")

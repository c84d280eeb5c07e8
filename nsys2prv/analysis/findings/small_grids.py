"""Kernels that leave multiprocessors without a block, or with few warps: findings `small-grids`, `low-occupancy`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case, KernelTime
from nsys2prv.analysis.facts.devices.serial_streams import advice_on_streams
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.kernel_families import PRODUCTS
from nsys2prv.analysis.facts.thresholds import (
    FEW_WARPS,
    LATENCY_KERNEL,
    LOW_OCCUPANCY,
    MEDIUM,
    OCCUPANCY_SHARE,
    RESERVED_SHARED,
    SMALL_GRIDS_SAVED,
    WARP,
)
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import KERNEL
from nsys2prv.analysis.interval_frames import at_longest
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.analysis.work_attributes import blocks_of, registers_of, shared_of, threads_of
from nsys2prv.model.units import bytes_text, text_ms
from nsys2prv.model.words import short

MORE_BLOCKS = "Give the kernel more blocks (a larger batch, split-K, smaller tiles)"
# Kernels with a block for each channel, of PyTorch's batch normalization of NCHW (ATen, native/cuda/Normalization.cuh).
OF_CHANNELS = r"^batch_norm_(?:backward|collect_statistics)_kernel"
CHANNELS_LAST = (
    "Each channel has one block: convert the model and its input to channels last (memory_format=torch.channels_last), "
    "whose kernels split a channel over blocks"
)
# Kernels of cuSOLVER, by LAPACK routine, which have few blocks for a small matrix. The name of the routine is a word of
# its own: a kernel named `getrow` is none of them.
OF_SOLVER = (
    r"^(?:(?:syev(?:dx?|j|bj)?|gesv(?:d(?:a|j|bj|r)?)?|getr[fs]|potr[fs]|geqr[f2]|orgqr|ormqr|ormtr|stedcx?|steqr2?)_"
    r"|(?:svd_)?(?:row|column)_rotate_batch(?:_|$))"
)
BATCH = Words(
    general="The kernel is of cuSOLVER, and its matrix is small: solve many matrices in one call (a batch)",
    pytorch="The kernel is of cuSOLVER, and its matrix is small: solve all matrices in one call (torch.linalg.eigh, "
    "svd and others take a batch)",
)
SIDE_BY_SIDE = "run independent kernels side by side on several streams"


def small_grids(case: Case) -> Iterator[Finding]:
    """Yield the time that small grids leave unused, then kernels of few threads, and those of low occupancy."""
    kernels = _kernels(case)
    if kernels.is_empty():
        return
    yield from _small(case, kernels.filter(pl.col("blocks") < pl.col("multiprocessors")))
    yield from _few_threads(case, kernels)
    yield from _low(case, kernels)


def _kernels(case: Case) -> pl.DataFrame:
    """Return kernels of the window that are long enough, with `blocks` of their grid and what their device has.

    `work`: their row of Run.work.
    """
    hardware = pl.DataFrame(
        [(n, *h.capacity) for n, h in enumerate(case.run.hardware) if h.capacity.multiprocessors],
        schema=dict.fromkeys(
            ["device", "memory", "multiprocessors", "warps", "registers", "shared", "most_blocks"], pl.Int64()
        ),
        orient="row",
    )
    long = case.kernels.filter(pl.col("ns") >= LATENCY_KERNEL.value, pl.col("shape").is_not_null())
    return long.with_columns(blocks=blocks_of(pl.col("shape"))).join(
        hardware.drop("memory"), on="device", how="inner", maintain_order="left"
    )


def _small(case: Case, small: pl.DataFrame) -> Iterator[Finding]:
    """Yield the kernel whose grids leave most unused, with the time of all. Kernels side by side count only once.

    More blocks save a part of the unused multiprocessors that is as large as the unused part itself, and at most
    SMALL_GRIDS_SAVED: a kernel of one block gains nearly all of its time, and one on most multiprocessors hardly any.
    """
    unused = 1 - pl.col("blocks") / pl.col("multiprocessors")
    others = case.run.work.filter(pl.col("kind") == KERNEL)
    alone = _alone(small.with_columns(unused=unused), others)
    if alone.is_empty():
        return
    lost = pl.col("ns") * pl.col("unused")
    by = (
        alone.group_by(pl.col("name").cast(pl.String))
        .agg(
            lost=lost.sum(),
            saved=(lost * pl.min_horizontal("unused", SMALL_GRIDS_SAVED.value)).sum(),
            blocks=pl.col("blocks").sort_by("ns", "start").last(),
            multiprocessors=pl.col("multiprocessors").sort_by("ns", "start").last(),
            at=at_longest("ns"),
        )
        .sort("lost", "name", descending=[True, False])
    )
    # No other kernel shares the time of these.
    on_path = case.on_path(pl.col("work").is_in(alone["work"].implode()))
    idle = KernelTime(case.of_device(float(by["lost"].sum())), on_path, case.unit)
    worst, ordered = by.row(0, named=True), advice_on_streams(case, alone)
    more = _more_blocks(case, str(worst["name"]))
    yield Finding(
        "small-grids",
        f"Kernels with fewer blocks than the GPU has multiprocessors (`{short(worst['name'], 40)}`: {worst['blocks']} "
        f"of {worst['multiprocessors']}): {text_ms(idle.device_ns)} {case.unit} of idle multiprocessors",
        float(by["saved"].sum()) / float(by["lost"].sum()) * idle.saved_at_most,
        f"{more}, or {SIDE_BY_SIDE}." if not ordered else f"{ordered} Else {more[0].lower()}{more[1:]}.",
        evidence={
            "unused_ns": round(idle.device_ns),
            "kernels": by["name"].head(5).to_list(),
            "blocks": worst["blocks"],
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show kernels",
        cfg="basics/kernels_full_name",
        at_ns=int(worst["at"]),
    )


def _more_blocks(case: Case, kernel: str) -> str:
    """Return how a kernel, by its name, gets more blocks; it ends without a period."""
    if re.match(OF_CHANNELS, kernel):
        return CHANNELS_LAST
    return BATCH.of(case.framework) if re.match(OF_SOLVER, kernel) else MORE_BLOCKS


def _alone(chosen: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the chosen kernels beside which no other kernel runs on their device."""
    ordered = kernels.select("device", "start", "end").sort("device", "start")
    before = pl.col("end").cum_max().shift(1).over("device")
    after = pl.col("start").shift(-1).over("device")
    lone = ordered.filter((before <= pl.col("start")).fill_null(True), (pl.col("end") <= after).fill_null(True))
    return chosen.join(lone, on=["device", "start", "end"], how="semi", maintain_order="left")


def _few_threads(case: Case, kernels: pl.DataFrame) -> Iterator[Finding]:
    """Yield the longest kernel whose threads are few for its device, if such kernels take much of compute.

    Other kernels beside it would fill the multiprocessors.
    """
    resources, multiprocessors = pl.col("resources"), pl.col("multiprocessors")
    blocks = (pl.col("blocks") + multiprocessors - 1) // multiprocessors
    measured = kernels.filter(resources.is_not_null(), pl.col("warps") > 0).with_columns(held=blocks * _warps())
    few = measured.filter(pl.col("held") <= FEW_WARPS.value, ~text_contains("family", PRODUCTS))
    few = _alone(few, case.run.work.filter(pl.col("kind") == KERNEL))
    if few.is_empty() or case.share_of_compute(float(few["ns"].sum())) < OCCUPANCY_SHARE.value:
        return
    same = ["blocks", "resources", "multiprocessors", "warps", "held"]
    worst = (
        few.group_by(pl.col("name").cast(pl.String), *same)
        .agg(pl.col("ns").sum(), at=at_longest("ns"))
        .sort("ns", "name", *same, descending=[True, *[False] * (1 + len(same))])
        .with_columns(threads=threads_of(resources))
        .row(0, named=True)
    )
    time = case.kernel_time(float(few["ns"].sum()), pl.col("work").is_in(few["work"].implode()))
    if time.saved_at_most < MEDIUM.value * case.iteration_ns:
        return
    several, threads = worst["blocks"] > 1, worst["threads"]
    yield Finding(
        "low-occupancy",
        f"`{short(worst['name'], 40)}` has too few threads: {worst['blocks']} block{'s' * several} of {threads} thread"
        f"{'s' * (threads > 1)} give{'s' * (not several)} a multiprocessor {worst['held']} of {worst['warps']} warps, "
        f"for {time.text}",
        0.0,
        "One warp of a scheduler cannot hide the latency of memory. Start more threads, each with less to do, such as "
        "a block for each row, whose threads share its sum.",
        evidence={
            "kernels_ns": round(time.device_ns),
            "kernel": worst["name"],
            "warps_of_multiprocessor": worst["held"],
            "blocks": worst["blocks"],
            "threads": threads,
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show kernels",
        cfg="basics/kernels_full_name",
        at_ns=int(worst["at"]),
        severity="medium",
    )


def _low(case: Case, kernels: pl.DataFrame) -> Iterator[Finding]:
    """Yield the longest kernel of low occupancy, if such kernels take much of compute."""
    measured = kernels.filter(
        pl.col("resources").is_not_null(), pl.col("warps") > 0, pl.col("blocks") >= pl.col("multiprocessors")
    ).with_columns(occupancy=_occupancy())
    low = measured.filter(pl.col("occupancy") < LOW_OCCUPANCY.value, ~text_contains("family", PRODUCTS))
    if low.is_empty() or case.share_of_compute(float(low["ns"].sum())) < OCCUPANCY_SHARE.value:
        return
    resources = pl.col("resources")
    worst = (
        low.group_by(pl.col("name").cast(pl.String), "resources")
        .agg(pl.col("ns").sum(), pl.col("occupancy").first(), at=at_longest("ns"))
        .sort("ns", "name", "resources", descending=[True, False, False])
        .with_columns(threads=threads_of(resources), registers=registers_of(resources), shared=shared_of(resources))
        .row(0, named=True)
    )
    each = case.of_device(float(low["ns"].sum()))
    yield Finding(
        "low-occupancy",
        f"`{short(worst['name'], 40)}` fills {100 * worst['occupancy']:.0f} % of the warps: {worst['threads']} "
        f"threads and {bytes_text(worst['shared'])} of shared memory a block, {worst['registers']} registers each",
        0.0,
        "Few warps hide little latency of memory: measure it with ncu; other block sizes, fewer registers "
        "(__launch_bounds__) or less shared memory let more blocks in.",
        evidence={
            "kernels_ns": round(each),
            "kernel": worst["name"],
            "occupancy": round(worst["occupancy"], 4),
            "threads": worst["threads"],
            "registers": worst["registers"],
            "shared_bytes": worst["shared"],
        },
        confidence="low",
        command="nsys2prv analyze RUN --show kernels",
        cfg="basics/kernels_full_name",
        at_ns=int(worst["at"]),
        severity="low",
    )


def _occupancy() -> pl.Expr:
    """Return the share of a multiprocessor's warps that the blocks which fit there have (CUDA occupancy calculator).

    Registers are given to warps in units of 256, shared memory to blocks with RESERVED_SHARED of the system.
    """
    resources, warps = pl.col("resources"), _warps()
    registers = (registers_of(resources) * int(WARP.value) + 255) // 256 * 256 * warps
    fits = pl.min_horizontal(
        pl.col("most_blocks"),
        pl.col("warps") // warps,
        pl.when(registers > 0).then(pl.col("registers") // registers),
        pl.when(shared_of(resources) > 0).then(pl.col("shared") // (shared_of(resources) + int(RESERVED_SHARED.value))),
    )
    return fits.clip(lower_bound=1) * warps / pl.col("warps")


def _warps() -> pl.Expr:
    """Return the number of warps of a block."""
    return (threads_of(pl.col("resources")) + int(WARP.value) - 1) // int(WARP.value)

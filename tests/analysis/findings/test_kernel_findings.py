"""Kernels: what they compute and how, which take long or vary, and how they fill a GPU."""

from __future__ import annotations

from itertools import accumulate

import polars as pl
import pytest
from programs import GOOD, UNIT, analysis_of, findings_of, program

from nsys2prv.analysis.facts.case import case_of
from nsys2prv.analysis.facts.devices.elementwise_chains import elementwise_chains
from nsys2prv.analysis.facts.devices.scalar_products import SCALAR_NAMES
from nsys2prv.analysis.facts.hosts.waits_of_hosts import waits_by_rank
from nsys2prv.analysis.findings.double_precision import DOUBLE_NAMES
from nsys2prv.analysis.findings.gathers import SORTED
from nsys2prv.analysis.frames import STREAM_KIND, Hardware, Run
from nsys2prv.model.stream_kinds import StreamKind
from nsys2prv.report.identity import Capacity


@pytest.mark.parametrize("family", ["GEMM", "flash_attention", "convolution"])
def test_a_product_that_takes_most_of_compute_is_no_fault(family: str) -> None:
    assert "dominant-kernel" not in findings_of(program(f"0| k:a:{family} @0 5-605, k @1 605-990"))


def test_kernels_that_run_at_once_share_the_time_of_compute() -> None:
    """Two for 5 ms: 11 of 14.85 ms of kernels in 9.85 ms."""
    found = findings_of(program("0| k:sort:sort @0 5-605, k:sort:sort @1 105-605, k @2 605-990"))
    assert "`sort` takes 74 % of compute, 7.30 ms" in found["dominant-kernel"].title


@pytest.mark.parametrize("name", ["DeviceRadixSortOnesweepKernel", "uneven"])
def test_of_a_kernel_that_takes_most_its_launches_are_told_and_top_k_of_sorts_alone(name: str) -> None:
    found = findings_of(program(f"0| k:{name}:other @0 5-405, k:{name}:other @1 405-605, k @2 605-990"))
    dominant = found["dominant-kernel"]
    assert dominant.title.endswith("(2 launches of 3.00 ms)")
    assert ("top-k in place of a sort" in dominant.advice) == (name != "uneven")
    assert "blocks that take much longer than others" in dominant.advice


@pytest.mark.parametrize(("name", "padded"), [("multi_bluestein_fft", True), ("vector_fft", False)])
def test_transforms_of_an_unfortunate_length_are_to_be_padded(name: str, padded: bool) -> None:
    dominant = findings_of(program(f"0| k:{name}:FFT @0 5-605, k @2 605-990"))["dominant-kernel"]
    assert ("Bluestein's algorithm: pad to a length" in dominant.advice) == padded


def test_kernels_of_a_chain_follow_each_other_on_one_stream() -> None:
    """Another kernel between two elementwise ones reads and writes something else."""
    apart = "k:a:elementwise @0 5-205, k:b:GEMM @1 205-250, k:a:elementwise @2 250-400, k @3 400-990"
    assert "unfused-elementwise" not in findings_of(program(f"0| {apart}"))


@pytest.mark.parametrize(
    ("looped", "others", "named"), [(60, 60, True), (60, 200, True), (40, 80, False), (50, 460, False)]
)
def test_a_loop_over_tensors_is_named_where_it_launches_many_kernels(looped: int, others: int, named: bool) -> None:
    """Its kernels follow each other; a layer has a few, and a tenth of all is worth a word."""
    kinds = ["k:a:elementwise"] * looped + ["k:b:GEMM"] * others
    times = [990 * n // len(kinds) for n in range(len(kinds))]
    kernels = ", ".join(f"{kind} @{at} {at + 1}-{at + 2}" for kind, at in zip(kinds, times, strict=True))
    advice = findings_of(program(f"0| {kernels}"))["launch-bound"].advice
    ms = (times[looped - 1] + 1) / 100  # From the begin of the first one, at 1, to the end of the last one.
    said = f"{looped} of the kernels are elementwise ones in a row, as of a loop over parameters, {ms:.2f} ms from the"
    assert (said in advice) == named


def test_a_screen_without_room_has_the_rounds_and_not_a_shorter_loop() -> None:
    """Of 230 kernels 120 are rounds of norms, and 50 a loop over tensors."""
    kinds = ["k:a:elementwise"] * 50 + ["k:r:reduction"] * 120 + ["k:b:GEMM", "k:c:softmax"] * 30
    kernels = ", ".join(f"{kind} @{4 * n} {4 * n + 1}-{4 * n + 2}" for n, kind in enumerate(kinds))
    found = findings_of(program(f"0| {kernels}"))["launch-bound"]
    assert "120 of the kernels repeat short sequences" in found.advice
    assert [part.split(",")[0] for part in found.spare] == ["50 of the kernels are elementwise ones in a row"]


@pytest.mark.parametrize(("reduced", "named"), [(110, True), (45, False)])
def test_a_loop_whose_kernels_follow_nccl_kernels_averages_gradients(reduced: int, named: bool) -> None:
    """Of 110 kernels in a row, each after a kernel of NCCL, or the first 45 alone."""
    items = []
    for n in range(110):
        items += [f"n @{9 * n} {9 * n + 1}-{9 * n + 2}"] * (n < reduced)
        items.append(f"k:a:elementwise @{9 * n + 4} {9 * n + 5}-{9 * n + 6}")
    rank = ", ".join(items)
    advice = findings_of(program(f"0| {rank}\n1| {rank}"))["launch-bound"].advice
    said = "110 of the kernels are elementwise ones, each after an NCCL kernel, as where gradients are averaged one by"
    assert (said in advice) == named
    assert ("as of a loop over parameters" in advice) != named


def test_a_stream_of_nothing_but_elementwise_kernels_has_a_chain_in_each_iteration() -> None:
    """Twelve in each of six iterations, as of a stencil, are no loop over tensors."""
    kernels = ", ".join(f"k:a:elementwise @{at} {at + 1}-{at + 2}" for at in range(0, 96, 8))
    analysis = analysis_of(program(f"0| {kernels}, n @98 99-990"))
    assert elementwise_chains(case_of(analysis))["work"].list.len().to_list() == [12] * 6
    (found,) = [one for one in analysis.findings if one.id == "launch-bound"]
    assert "elementwise ones in a row" not in found.advice


def test_the_softmax_of_a_loss_is_no_attention() -> None:
    """One softmax an iteration, and one each time that a loss is computed."""
    once = "0| k:a:softmax @0 5-205, k @1 205-990"
    each = ", ".join(f"k:a:softmax @0 {n}5-{n + 1}0, k:b:loss @1 {n + 1}0-{n + 1}5" for n in range(0, 90, 2))
    assert "unfused-attention" in findings_of(program(f"0| {each.replace('k:b:loss', 'k:b:other')}"))
    assert [*unfused_of(once), *unfused_of(f"0| {each}")] == []


def test_what_masks_and_casts_scores_belongs_to_attention() -> None:
    """Two layers: between two products a mask, a softmax and a cast; before the first product and after a norm, a cast.

    That cast is a conversion; the others are no conversions and no chain.
    """
    layer = [("cast", "copy/cast", 100), ("qk", "GEMM", 40), ("mask", "elementwise", 80), ("scale", "elementwise", 30)]
    layer += [("s", "softmax", 60), ("cast", "copy/cast", 90), ("pv", "GEMM", 40), ("norm", "normalization", 30)]
    ends = list(accumulate((length for *_, length in 2 * layer), initial=5))
    kernels = [f"k:{name}:{kind} @{n} {ends[n]}-{ends[n + 1]}" for n, (name, kind, _) in enumerate(2 * layer)]
    found = findings_of(program(f"0| {', '.join(kernels)}"))
    attention = found["unfused-attention"]
    assert "Softmax kernels and those that mask, scale or cast scores take 55 % of compute, 5.20 ms" in attention.title
    assert (attention.evidence["scores_ns"], attention.evidence["softmax_ns"]) == (5_200_000, 1_200_000)
    assert "take 21 % of compute, 2.00 ms" in found["conversions"].title
    assert "unfused-elementwise" not in found
    apart = ", ".join(kernels).replace("k:qk:GEMM", "k:qk:reduction")
    assert (
        "Softmax kernels take 13 % of compute, 1.20 ms"
        in findings_of(program(f"0| {apart}"))["unfused-attention"].title
    )


@pytest.mark.parametrize(("part", "sorts"), [(400, True), (100, False)])
def test_the_kernel_that_adds_equal_indices_one_after_another_has_advice_of_its_own(part: int, sorts: bool) -> None:
    middle = 505 - part
    run = program(
        f"0| k:take:gather/scatter @0 5-{middle}, k:sorted:gather/scatter @1 {middle}-505, k:b:GEMM @2 505-990"
    )
    by_stride = {"sorted": f"{SORTED}_small_stride"}
    name = pl.col("name").cast(pl.String).replace(by_stride).cast(run.work.schema["name"])
    found = findings_of(run._replace(work=run.work.with_columns(name)))
    assert ("Gather by index_select" in found["gathers"].advice) == sorts
    assert "dominant-kernel" not in found


@pytest.mark.parametrize(("gelu", "share"), [(230, 21), (100, 69)])
def test_work_that_is_longer_than_passes_over_scores_is_none_of_attention(gelu: int, share: int) -> None:
    """As an activation before the softmax of a gate."""
    layer = [("up", "GEMM", 40), ("gelu", "elementwise", gelu), ("s", "softmax", 80), ("down", "GEMM", 40)]
    ends = list(accumulate((length for *_, length in 2 * layer), initial=5))
    kernels = [f"k:{name}:{kind} @{n} {ends[n]}-{ends[n + 1]}" for n, (name, kind, _) in enumerate(2 * layer)]
    title = findings_of(program(f"0| {', '.join(kernels)}"))["unfused-attention"].title
    assert f"take {share} % of compute" in title


def test_a_kernel_on_scores_that_takes_most_is_of_attention() -> None:
    layer = "k:qk:GEMM @0 5-50, k:mask:elementwise @1 50-250, k:s:softmax @2 250-360, k:pv:GEMM @3 360-400"
    other = "k:qk:GEMM @4 400-450, k:mask:elementwise @5 450-650, k:s:softmax @6 650-760, k:pv:GEMM @7 760-800"
    found = findings_of(program(f"0| {layer}, {other}"))
    assert "unfused-attention" in found
    assert "dominant-kernel" not in found


@pytest.mark.parametrize(("family", "few"), [("convolution", True), ("GEMM", False)])
def test_convolutions_of_few_channels_use_no_tensor_cores_in_any_type(family: str, few: bool) -> None:
    found = findings_of(program(f"0| k:sgemm:{family} @0 5-600, k @1 600-990"))["matrix-products"]
    assert ("Convolutions of few channels stay" in found.advice) == few


def unfused_of(picture: str) -> list[str]:
    """Return the findings of a program that speak of attention."""
    return [name for name in findings_of(program(picture)) if name == "unfused-attention"]


def test_kernels_that_take_longer_in_some_iterations_are_named() -> None:
    slow = {f"step{n}_rank0": "k:usual:k @0 2-300, k:varies:k @1 300-990" for n in (2, 4)}
    found = findings_of(program("0| k:usual:k @0 2-300, k:varies:k @1 300-600", **slow))
    assert "`varies` takes either 3.00 ms or 6.90 ms" in found["varying-kernels"].title
    assert found["varying-kernels"].cost_ns / 1e6 == pytest.approx(2 * 3.9 / 6)
    assert "varying-kernels" not in findings_of(program("0| k:usual:k @0 2-300, k:varies:k @1 300-600"))
    any_length = {f"step{n}_rank0": f"k:usual:k @0 2-300, k:varies:k @1 300-{400 + 100 * n}" for n in range(6)}
    spread = findings_of(program("0| k:usual:k @0 2-300, k:varies:k @1 300-600", **any_length))["varying-kernels"]
    assert "takes 3.50 ms, and up to 6.00 ms" in spread.title


H100 = Capacity(80 * 10**9, 132, 64, 65536, 233472, 32)


def with_hardware(run: Run, **changed: object) -> Run:
    """A run on GPUs of one model."""
    return run._replace(hardware=tuple(Hardware("H100", H100, **changed) for _ in run.devices))  # type: ignore[arg-type]


def test_products_gain_no_more_than_they_take_of_the_critical_path() -> None:
    """The host of rank 0 is late by 5 ms, while rank 1 computes 4 ms of products and waits."""
    late = "busy 0-500, k:other:k @500 505-900, n @510 900-905, wait 520-906"
    products = "k:sgemm:GEMM_nn_128x128x8 @0 5-405, n @10 405-905, wait 20-906"
    found = findings_of(program(f"0| {late}\n1| {products}"))
    assert "matrix-products" not in found
    both = findings_of(program(f"0| {late.replace('other:k', 'sgemm:GEMM_nn_128x128x8')}\n1| {products}"))
    assert both["matrix-products"].cost_ns / 1e6 == pytest.approx(0.75 * 3.95, rel=0.02)


@pytest.mark.parametrize(
    ("blocks", "named", "saved"), [(1, True, 0.9), (33, True, 0.75), (66, True, 0.5), (132, False, 0)]
)
def test_grids_below_the_number_of_multiprocessors_are_named(blocks: int, named: bool, saved: float) -> None:
    """Of 7.9 ms with part of the device unused that part can be saved again, up to nine tenths of it."""
    run = with_hardware(program("0| k @0 5-405, k @1 410-800"))
    shape = (blocks << 32) + (1 << 16) + 1
    found = findings_of(run._replace(work=run.work.with_columns(shape=pl.lit(shape, pl.Int64))))
    assert ("small-grids" in found) == named
    if named:
        assert found["small-grids"].cost_ns / 1e6 == pytest.approx(7.9 * (1 - blocks / 132) * saved, rel=0.01)
        assert f"{blocks} of 132" in found["small-grids"].title
        assert found["small-grids"].advice.endswith("side by side on several streams.")


# Kernels of cuSOLVER on an H200 GPU, and others whose names begin alike.
SOLVERS = (
    *("syevbj_batch_32x16", "syevj_diagonal_kernel", "gesvdbj_batch_32x16", "gesvdj_diagonal_kernel", "getrf_pivot"),
    *("geqr2_smem_domino_fast", "orgqr_step1_kernel", "column_rotate_batch", "svd_row_rotate_batch_32x16"),
)
OTHERS = ("getrow_kernel", "getrank", "column_rotate_image", "potrace_lines", "gesvelocity_kernel")


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("batch_norm_backward_kernel", "Each channel has one block: convert the model and its input to channels last"),
        *((solver, "solve many matrices in one call (a batch)") for solver in SOLVERS),
        *((other, "(a larger batch, split-K, smaller tiles)") for other in OTHERS),
    ],
)
def test_advice_on_small_grids_fits_the_kernel(kernel: str, says: str) -> None:
    run = with_hardware(program("0| k @0 5-405, k @1 410-800"))
    shape, name = pl.lit((33 << 32) + (1 << 16) + 1, pl.Int64), pl.lit(kernel, run.work["name"].dtype)
    advice = findings_of(run._replace(work=run.work.with_columns(shape=shape, name=name)))["small-grids"].advice
    assert (says in advice, "split-K" in advice) == (True, "split-K" in says)


@pytest.mark.parametrize(("launched", "held_back"), [(1, True), (404, False)])
def test_streams_whose_small_kernels_run_one_after_another_are_named(launched: int, held_back: bool) -> None:
    """The second kernel is of another stream. Launched at 4.04 ms it could not have begun beside the first one."""
    run = with_hardware(program(f"0| k @0 5-405, k @{launched} 405-900"))
    shape, second = pl.lit((33 << 32) + (1 << 16) + 1, pl.Int64), pl.int_range(pl.len()) % 2
    found = findings_of(run._replace(work=run.work.with_columns(shape=shape, row=pl.col("row") + second)))
    advice = found["small-grids"].advice
    assert advice.startswith("They are launched on 2 streams, but run one after another. If") == held_back
    assert advice.startswith("Give the kernel more blocks (a larger batch, split-K") != held_back
    assert ("Else give the kernel more blocks (a larger batch, split-K" in advice) == held_back


@pytest.mark.parametrize(("launched", "thread", "told"), [(1, 1, True), (404, 1, False), (1, 0, False)])
def test_threads_whose_small_kernels_wait_for_each_other_on_one_stream_are_named(
    launched: int, thread: int, told: bool
) -> None:
    """Another thread launches the second kernel. Launched at 4.04 ms it would begin at once on any stream."""
    run = with_hardware(program(f"0| k @0 5-405, k @{launched} 405-900"))
    shape, second = pl.lit((33 << 32) + (1 << 16) + 1, pl.Int64), pl.int_range(pl.len()) % 2
    work = run.work.with_columns(shape=shape, caller_row=pl.col("caller_row") + thread * second)
    advice = findings_of(run._replace(work=work))["small-grids"].advice
    assert advice.startswith("2 threads launch them on one stream, where each waits for those of the others.") == told
    assert ("give each thread a stream of its own" in advice) == told


@pytest.mark.parametrize("before", ["c:Host-to-Device:Pinned_to_Device", "k:large"])
def test_only_small_kernels_of_other_threads_hold_small_kernels_back(before: str) -> None:
    """One thread launches all small kernels, and another one what runs before each on their stream."""
    run = with_hardware(program(f"0| {before} @0 1-200, k @1 200-500, {before} @2 500-600, k @3 600-900"))
    small = pl.col("name").cast(pl.String) == "kernel"
    shape = pl.when(small).then(33).otherwise(132).cast(pl.Int64) * 2**32 + 2**16 + 1
    work = run.work.with_columns(shape=shape, caller_row=pl.when(small).then(0).otherwise(9).cast(pl.Int64))
    assert findings_of(run._replace(work=work))["small-grids"].advice.startswith("Give the kernel more blocks")


def test_threads_of_unknown_kernels_and_of_other_streams_are_not_counted() -> None:
    """Two threads launch on one stream, which also has a kernel of a thread that is not known; three on another one."""
    run = with_hardware(
        program("0| k @0 5-105, k @1 105-650, k @2 650-700, k @700 701-800, k @800 801-900, k @900 901-990")
    )
    shape = pl.lit((33 << 32) + (1 << 16) + 1, pl.Int64)
    at = pl.Series(range(run.work.height)) % 6
    callers, streams = (pl.Series(of, dtype=pl.Int64).gather(at) for of in ([0, 9, None, 0, 9, 10], [1, 1, 1, 2, 2, 2]))
    work = run.work.with_columns(shape=shape, caller_row=callers, row=streams)
    advice = findings_of(run._replace(work=work))["small-grids"].advice
    assert advice.startswith("2 threads launch them on one stream")


NULL, BLOCKING, NON_BLOCKING = StreamKind.NULL, StreamKind.BLOCKING, StreamKind.NON_BLOCKING


@pytest.mark.parametrize(
    ("kinds", "contexts", "ordered"),
    [
        ((BLOCKING, BLOCKING, NULL), (0, 0, 0), True),
        ((NULL, BLOCKING, NULL), (0, 0, 0), True),
        ((BLOCKING, BLOCKING, BLOCKING), (0, 0, 0), False),
        ((NON_BLOCKING, NON_BLOCKING, NULL), (0, 0, 0), False),
        ((BLOCKING, BLOCKING, NULL), (0, 1, 0), False),
    ],
)
def test_the_default_stream_orders_others_if_reports_say_so(
    kinds: tuple[int, ...], contexts: tuple[int, ...], ordered: bool
) -> None:
    """Between two kernels of two streams lies the launch of a short one on a third stream."""
    run = with_hardware(program("0| k @0 5-405, n @1 405-406, k @2 406-900"))
    row = int(run.work["row"][0])
    shapes = pl.when(pl.col("kind") == "kernel").then(pl.lit((33 << 32) + (1 << 16) + 1, pl.Int64))
    streams = pl.Series([row, row + 2, row + 1], dtype=pl.Int64)
    work = run.work.with_columns(shape=shapes, row=streams.gather(pl.Series(range(run.work.height)) % 3))
    known = pl.DataFrame(
        {"row": [row, row + 1, row + 2], "context": contexts, "kind": [*map(int, kinds)]}, schema=STREAM_KIND
    )
    advice = findings_of(run._replace(work=work, stream_kinds=known))["small-grids"].advice
    said = "as work on the default stream lies between" if ordered else "such as events: the default stream does not."
    assert advice.startswith("They are launched on 2 streams, but run one after another")
    assert said in advice


def test_kernels_of_several_processes_are_not_of_several_streams() -> None:
    """Both ranks launch on one device, where processes take turns."""
    run = with_hardware(program("0| k @0 5-405\n1| k @1 410-900"))
    shape = pl.lit((33 << 32) + (1 << 16) + 1, pl.Int64)
    on_one = run._replace(work=run.work.with_columns(shape=shape, device=pl.lit(0, pl.Int64)))
    assert findings_of(on_one)["small-grids"].advice.startswith("Give the kernel more blocks")


# Names of kernels on H200 GPUs: without tensor cores, in double precision.
@pytest.mark.parametrize(
    ("name", "scalar", "double"),
    [
        ("sm80_xmma_wgrad_implicit_gemm_indexed_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize32x32x8_ffma", True, False),
        ("dgrad_engine", True, False),
        ("wgrad_alg0_engine", True, False),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x256x32_warpgroupsize2x1x1", False, False),
        ("sm90_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64", False, False),
        ("sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16_stage3_warpsize2x2x1_tensor16x8x8", False, True),
        ("volta_dgemm_128x64_nn", False, True),
        ("cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1", False, True),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", False, False),
    ],
)
def test_names_say_how_a_product_computes(name: str, scalar: bool, double: bool) -> None:
    assert pl.Series([name]).str.contains(SCALAR_NAMES).to_list() == [scalar]
    assert pl.Series([name]).str.contains(DOUBLE_NAMES).to_list() == [double]


@pytest.mark.parametrize(
    ("family", "threads", "registers", "shared", "occupancy"),
    [
        ("k", 1024, 32, 0, None),  # 64 of 64 warps
        ("GEMM", 128, 255, 0, None),  # 2 blocks of 4 warps, each with 32,768 registers: 8 of 64, of a product
        ("flash_attention", 128, 255, 0, None),
        ("k", 64, 32, 200_000, 2 / 64),  # one block
        ("k", 32, 255, 0, 8 / 64),
    ],
)
def test_kernels_with_few_warps_are_named(
    family: str, threads: int, registers: int, shared: int, occupancy: float | None
) -> None:
    run = with_hardware(program(f"0| k:usual:{family} @0 5-805"))
    resources = (shared << 20) + (registers << 11) + threads
    grid = (1000 << 32) + (1 << 16) + 1
    work = run.work.with_columns(shape=pl.lit(grid, pl.Int64), resources=pl.lit(resources, pl.Int64))
    found = findings_of(run._replace(work=work))
    evidence = found["low-occupancy"].evidence["occupancy"] if "low-occupancy" in found else None
    assert evidence == (occupancy and pytest.approx(occupancy, abs=1e-3))


@pytest.mark.parametrize(
    ("line", "blocks", "threads", "says"),
    [
        ("k:rows:k @0 5-805", 128, 32, "128 blocks of 32 threads give a multiprocessor 1 of 64 warps, for 8.00 ms"),
        ("k:rows:k @0 5-805", 1, 1, "1 block of 1 thread gives a multiprocessor 1 of 64 warps"),
        ("k:rows:k @0 5-805", 264, 64, "264 blocks of 64 threads give a multiprocessor 4 of 64 warps"),
        ("k:rows:k @0 5-805", 264, 96, None),
        ("k:rows:GEMM @0 5-805", 128, 32, None),
        # Less than a tenth of compute, less than 3 % of an iteration, another kernel beside.
        ("k:rows:k @0 5-50, k:usual:GEMM @0 50-800", 128, 32, None),
        ("k:rows:k @0 5-20", 128, 32, None),
        ("k:rows:k @0 5-805, k:usual:GEMM @0 100-700", 128, 32, None),
    ],
)
def test_kernels_of_few_threads_are_named(line: str, blocks: int, threads: int, says: str | None) -> None:
    run = with_hardware(program(f"0| {line}"))
    own, grid = pl.col("name").cast(pl.String) == "rows", (blocks << 32) + (1 << 16) + 1
    columns = {"shape": pl.lit(grid, pl.Int64), "resources": pl.lit((32 << 11) + threads, pl.Int64)}
    work = run.work.with_columns(**{name: pl.when(own).then(value) for name, value in columns.items()})
    found = findings_of(run._replace(work=work)).get("low-occupancy")
    few = found.title if found and "too few threads" in found.title else None
    assert (few is None) == (says is None)
    assert (says or "") in (few or "")


@pytest.mark.parametrize(("filled", "named"), [(0.95, True), (0.5, False)])
def test_memory_near_full_is_named(filled: float, named: bool) -> None:
    found = findings_of(with_hardware(program(GOOD), memory_peaks=(round(filled * H100.memory),), peak_at=7))
    assert ("memory-near-full" in found) == named
    if named:
        assert "76.0 GB of 80.0 GB, 95 %" in found["memory-near-full"].title
        assert (found["memory-near-full"].severity, found["memory-near-full"].at_ns) == ("medium", 7)


def test_kernels_of_cutlass_are_known_by_their_class() -> None:
    found = findings_of(program("0| k:Kernel2:GEMM_nn_128x128x8 @0 5-600, k @1 600-990"))
    assert "(`GEMM nn 128x128x8`)" in found["matrix-products"].title


@pytest.mark.parametrize(
    ("name", "joins"), [("CatArrayBatchedCopy", True), ("loop concatenate fusion", True), ("transpose", False)]
)
def test_copies_that_join_arrays_are_advised_to_be_written_in_place(name: str, joins: bool) -> None:
    picture = f"0| k:{name.replace(' ', '_')}:copy/cast @0 5-305, k:cast:copy/cast @1 305-405, k @1 405-990"
    assert findings_of(program(picture))["conversions"].advice.startswith("Most of it joins arrays") == joins


def test_kernels_of_two_streams_with_an_event_behind_each_are_not_timed() -> None:
    """Both streams record 240 events, as many as rows of 120 timed kernels have."""
    both = [
        f"k:{name}:k @{at + 0.1} {at + 1}-{at + 3}, cuda:cudaEventRecord {at + 0.2}-{at + 0.3}"
        for n in range(120)
        for at, name in ((5 + 6 * n, "a"), (8 + 6 * n, "b"))
    ]
    run = program(f"0| {', '.join(both)}, k:c:GEMM @800 800-990")
    second = (pl.col("name").cast(pl.String) == "b").cast(pl.Int64)
    streams = run._replace(work=run.work.with_columns(row=pl.col("row") + second))
    assert "timed-kernels" not in findings_of(streams)


def test_kernels_whose_events_a_stream_waits_for_are_not_timed() -> None:
    """As XLA does, which records two events in each call of a function."""
    calls = ", ".join(
        f"k:a:k @{at} {at + 1}-{at + 3}, cuda:cuEventRecord {at + 3}-{at + 3.2}, "
        f"cuda:cuEventRecord {at + 4}-{at + 4.2}, cuda:cuStreamWaitEvent {at + 5}-{at + 5.1}"
        for at in range(5, 725, 6)
    )
    assert "timed-kernels" not in findings_of(program(f"0| {calls}, k:c:GEMM @800 800-990"))


@pytest.mark.parametrize(
    ("records", "cleared", "named"),
    [(2, True, True), (2, False, True), (1, True, False), (0, True, False)],
    ids=["after a clear", "alone", "one event each", "a solver"],
)
def test_kernels_that_are_launched_to_be_timed_are_named(records: int, cleared: bool, named: bool) -> None:
    """An autotuner records an event before and after each of 120 launches, and may empty the cache before."""
    trials = []
    for n in range(120):
        at = 5 + 6 * n
        clear = f"k:fill:elementwise @{at} {at}-{at + 2}, " if cleared else ""
        events = ", ".join(
            f"cuda:cudaEventRecord {at + 0.2 + 0.3 * one}-{at + 0.3 + 0.3 * one}" for one in range(records)
        )
        trials.append(f"{clear}k:silu:triton @{at + 0.1} {at + 2}-{at + 4}" + (f", {events}" if events else ""))
    found = findings_of(program(f"0| {', '.join(trials)}, k:a:GEMM @800 800-990"))
    assert ("timed-kernels" in found) == named
    if named:
        assert "`silu` are launched 120 times an iteration to be timed" in found["timed-kernels"].title
        lengths = (5 + 6 * 119 + 4) - (5 if cleared else 7)
        assert found["timed-kernels"].cost_ns == pytest.approx(lengths * UNIT)


def timed_row(begin: int, count: int = 110, every: int = 3, cleared: bool = False) -> str:
    """Kernels of one unit, each between two event records, and after one that empties the cache if `cleared`."""
    clear = "k:fill:elementwise @{0} {0}-{1}, " if cleared else ""
    return ", ".join(
        f"{clear.format(at, at + 1)}k:silu:triton @{at + 0.1} {at + 1}-{at + 2}, "
        f"cuda:cudaEventRecord {at + 0.2}-{at + 0.3}, cuda:cudaEventRecord {at + 0.4}-{at + 0.5}"
        for at in range(begin, begin + count * every, every)
    )


@pytest.mark.parametrize(("between", "other"), [("silu", False), ("gelu", True)], ids=["tried", "of the program"])
def test_time_between_rows_of_timed_kernels_is_told_once(between: str, other: bool) -> None:
    """The device runs one kernel in 2 ms between two rows of 110 kernels, and lacks work behind them, too."""
    found = findings_of(
        program(f"0| {timed_row(5)}, {timed_row(535)}, k:{between}:triton @434 434-434.5, k:a:GEMM @999 999-1000")
    )
    idle = 535 + 1 - (5 + 3 * 109 + 2)
    in_rows = 2 * (109 * 3 + 1)
    assert found["timed-kernels"].cost_ns == pytest.approx((in_rows + (0 if other else idle)) * UNIT)
    # The device lacks work before the product, too.
    lacking = 999 - (535 + 3 * 109 + 2) + (idle - 0.5 if other else 0)
    assert found["launch-bound" if other else "host-bound"].cost_ns == pytest.approx(lacking * UNIT, rel=0.05)


def test_a_device_that_times_kernels_beside_another_one_lacks_no_work() -> None:
    found = findings_of(program(f"0| {timed_row(5, count=120, every=8)}\n1| k:a:GEMM @0 2-990"))
    assert found["timed-kernels"].cost_ns == pytest.approx((5 * 1000 + 119 * 8 + 1) / 6 * UNIT / 2)
    assert not found.keys() & {"launch-bound", "host-bound"}


def test_a_call_between_timed_kernels_is_not_what_devices_wait_for() -> None:
    """The host waits for the system between two rows, and later, for less time, before the work of the program."""
    calls = "os:sem_wait 340-530, os:poll 866-990"
    found = findings_of(program(f"0| {timed_row(5)}, {timed_row(535)}, {calls}, k:a:GEMM @990 991-1000"))
    waiting = found["system-waiting"]
    assert waiting.evidence["call"] == "poll"
    assert waiting.evidence["idle_in_call_ns"] == waiting.evidence["idle_in_calls_ns"]


def test_waits_for_timed_kernels_are_none_of_the_program() -> None:
    """The host waits for its device in each pause between rows, and once for the work of the program."""
    waits = ", ".join(f"wait {at}-{at + 5}" for at in range(340, 530, 10))
    line = f"{timed_row(5)}, {timed_row(535)}, {waits}, wait 870-900, k:a:GEMM @901 902-1000"
    case = case_of(analysis_of(program(f"0| {line}\n1| k:a:GEMM @0 2-990")))
    assert waits_by_rank(case)[0] == 1
    assert case.kept_calls(case.device_waits).height == 6


@pytest.mark.parametrize(
    ("between", "more"),
    [
        ("n @434 434-634", 0),
        ("c:HtoD @434 434-534", 0),
        (", ".join(f"k:silu:triton @{at} {at}-{at + 1}" for at in range(347, 617, 3)), 650 - 614),
    ],
    ids=["AllReduce", "copy", "loop"],
)
def test_what_the_program_does_between_rows_of_timed_kernels_is_not_timed(between: str, more: int) -> None:
    """90 launches of the kernel without events are no warm-up for 110. The last one is in the row that follows."""
    line = f"{timed_row(5, cleared=True)}, {between}, {timed_row(650, cleared=True)}, k:a:GEMM @985 985-1000"
    found = findings_of(program(f"0| {line}\n1| {line}"))
    assert found["timed-kernels"].cost_ns == pytest.approx((2 * (109 * 3 + 2) + more) * UNIT)


def test_launches_that_warm_a_kernel_up_belong_to_its_timing() -> None:
    warm_up = ", ".join(f"k:silu:triton @{at} {at}-{at + 1}" for at in range(345, 434, 3))
    rows = f"{timed_row(5, cleared=True)}, {timed_row(650, cleared=True)}"
    found = findings_of(program(f"0| {rows}, {warm_up}, k:a:GEMM @985 985-1000"))
    assert found["timed-kernels"].cost_ns == pytest.approx((650 - 5 + 109 * 3 + 2) * UNIT)

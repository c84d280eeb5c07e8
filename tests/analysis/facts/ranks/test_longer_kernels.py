"""Why a GPU computes longer than others: unequal shares, other data in the same launches, or a slower GPU."""

from __future__ import annotations

import polars as pl
import pytest
from programs import findings_of, of_processes, program

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.ranks.longer_kernels import (
    DATA_OR_SPEED,
    MORE_DATA,
    MORE_LAUNCHES,
    OTHER_DATA,
    OTHER_KERNELS,
    OTHER_TYPE,
    UNDECIDED,
)
from nsys2prv.analysis.findings.imbalance import KEEPS_LAUNCHES
from nsys2prv.analysis.frames import Hardware, Run
from nsys2prv.model.frames import RECEIVE

# Four kernels of 0.5 ms each, then rank 1 has more to do.
USUAL = [f"k:{name}:{family} @0 {5 + 50 * n}-{55 + 50 * n}" for n, (name, family) in enumerate(
    [("gemm", "GEMM"), ("norm", "normalization"), ("add", "elementwise"), ("sum", "reduction")]
)]  # fmt: skip
# Of a grid of 8 x 1 x 1 blocks.
SHAPE = 8 * 2**32 + 2**16 + 1


def uneven(own: str, usual: str, end: int, ranks: int = 3) -> Run:
    """Return a run whose rank 1 computes `own` after the usual kernels, until `end`, and others `usual`, until 255."""
    lines = [
        f"{rank}| {', '.join(USUAL)}, {own if rank == 1 else usual}, n @10 {end if rank == 1 else 255}-{end + 5}, "
        f"wait 20-{end + 6}"
        for rank in range(ranks)
    ]
    run = program("\n".join(lines))
    return run._replace(work=run.work.with_columns(shape=pl.when(pl.col("kind") == "kernel").then(SHAPE)))


def with_blocks(run: Run, name: str, blocks: int) -> Run:
    """Return a run in which kernels of a name have another number of blocks on rank 1."""
    chosen = (pl.col("name").cast(pl.String) == name) & (pl.col("task") == 1)
    shape = pl.when(chosen).then(blocks * 2**32 + 2**16 + 1).otherwise("shape")
    return run._replace(work=run.work.with_columns(shape=shape))


def advice(run: Run) -> str:
    return findings_of(run)["imbalance"].advice


LONG = uneven("k:bag:embedding @0 205-655", "k:bag:embedding @0 205-255", 655)


def test_the_same_launches_of_the_same_grids_have_other_data() -> None:
    """One kernel takes 4.5 ms in place of 0.5, and four others as long as elsewhere."""
    assert advice(LONG) == (
        "Share the work evenly: 100 % of what it computes longer is in `bag` (the same launches and grids, 9.0 times "
        f"as long). {OTHER_DATA}"
    )


def test_a_rank_whose_kernels_were_not_recorded_is_none_of_the_others() -> None:
    """Its launches counted as none: 1 of one rank and 0 of the other were `on others 0`."""
    three = ", ".join(f"k:bag:embedding @{n} {205 + 150 * n}-{355 + 150 * n}" for n in range(3))
    run = uneven(three, "k:bag:embedding @0 205-255", 655)
    lost = run.work.filter((pl.col("task") != 2) | (pl.col("kind") != "kernel"))
    assert "`bag` (launches an iteration: 3, on others 1)" in advice(run._replace(work=lost))


@pytest.mark.parametrize(
    ("gain", "predicts"),
    [(1.0, "1.00 ms of it"), (0.001, "next to nothing"), (9.0, "")],
    ids=["less", "nothing", "more"],
)
def test_the_advice_says_what_whatif_predicts_where_that_is_less(
    monkeypatch: pytest.MonkeyPatch, gain: float, predicts: str
) -> None:
    """The next command shows it: a cost of 0.119 ms became 0.101."""
    monkeypatch.setattr(Case, "gain", lambda *_: gain * 1e6)
    found = findings_of(LONG)["imbalance"]
    said = f" `nsys2prv whatif RUN --set imbalance=0` predicts {predicts}: {KEEPS_LAUNCHES}"
    assert found.spare == ((said,) if predicts else ())
    assert all(found.advice.endswith(part) for part in found.spare)


def test_larger_grids_are_more_data() -> None:
    assert advice(with_blocks(LONG, "bag", 72)) == (
        "Share the work evenly: 100 % of what it computes longer is in `bag` (as many launches with 9.0 times as many "
        f"blocks). {MORE_DATA}"
    )


@pytest.mark.parametrize(("blocks", "follows"), [(8, OTHER_KERNELS), (32, MORE_DATA)], ids=["alike", "larger"])
def test_other_kernels_in_as_many_launches_have_more_data_if_they_have_more_blocks(blocks: int, follows: str) -> None:
    """Libraries choose products by their sizes, and by types; those of rank 1 take nine times as long."""
    run = uneven("k:large:attention @0 205-655", "k:small:attention @0 205-255", 655)
    assert advice(with_blocks(run, "large", blocks)) == (
        "Share the work evenly: 100 % of what it computes longer is in attention kernels like `large` (as many "
        f"launches; by other kernels they take 9.0 times as long). {follows}"
    )


def test_gpus_of_other_models_are_not_compared() -> None:
    run = uneven("k:bag:embedding @0 205-655", "k:bag:embedding @0 205-255", 655)
    mixed = run._replace(hardware=tuple(Hardware(model) for model in ("H100", "A100", "H100")))
    assert advice(mixed) == "Its GPU is of another model (A100, others: H100): give it a share that fits its speed."


def test_products_that_libraries_choose_by_size_are_counted_together() -> None:
    """Rank 1 runs one of two products as another kernel, which others run, too: neither kind is launched more."""
    own = "k:large:GEMM @0 205-405, k:large:GEMM @0 405-655"
    advised = advice(uneven(own, "k:small:GEMM @0 205-230, k:large:GEMM @0 230-255", 655))
    assert (
        "in GEMM kernels like `large` (as many launches; by other kernels they take 5.0 times as long). It runs other"
        in advised
    )


def test_products_without_tensor_cores_on_one_rank_are_another_type() -> None:
    """Rank 1 computes its second product in FP32, with more blocks; its first one is short."""
    run = uneven("k:sgemm:GEMM @0 205-655", "k:nvjet:GEMM @0 205-255", 655)
    found = findings_of(with_blocks(run, "sgemm", 32))
    advised = found["imbalance"].advice
    assert advised.startswith("100 % of what it computes longer is in GEMM kernels like `sgemm` (as many")
    assert advised.endswith(OTHER_TYPE)
    assert found["matrix-products"].title.startswith("Matrix products of rank 1 do not use tensor cores (")
    assert found["matrix-products"].ranks == (1,)


def test_products_without_tensor_cores_on_all_ranks_are_no_other_type() -> None:
    run = uneven("k:sgemm:GEMM @0 205-655", "k:othersgemm:GEMM @0 205-255", 655)
    found = findings_of(with_blocks(run, "sgemm", 32))
    assert found["imbalance"].advice.endswith(MORE_DATA)
    assert found["matrix-products"].title.startswith("Matrix products do not use tensor cores (")


def test_more_launches_are_a_larger_share() -> None:
    more = ", ".join(f"k:layer:sort @0 {205 + 50 * n}-{255 + 50 * n}" for n in range(9))
    assert advice(uneven(more, "k:layer:sort @0 205-255", 655)) == (
        "Share the work evenly: 100 % of what it computes longer is in `layer` (launches an iteration: 9, on others "
        f"1). {MORE_LAUNCHES}"
    )


def test_other_ranks_that_launch_unlike_each_other_are_a_range() -> None:
    """Rank 0 launches `layer` three times, ranks 2 and 3 once: the median, 1, holds for no mean of them."""
    more = ", ".join(f"k:layer:sort @0 {205 + 50 * n}-{255 + 50 * n}" for n in range(9))
    lines = {0: "k:layer:sort @0 205-225, k:layer:sort @0 225-240, k:layer:sort @0 240-255", 1: more}
    text = "\n".join(
        f"{rank}| {', '.join(USUAL)}, {lines.get(rank, 'k:layer:sort @0 205-255')}, "
        f"n @10 {655 if rank == 1 else 255}-660, wait 20-661"
        for rank in range(4)
    )
    run = program(text)
    run = run._replace(work=run.work.with_columns(shape=pl.when(pl.col("kind") == "kernel").then(SHAPE)))
    assert "(launches an iteration: 9, on others 1 to 3)" in advice(run)


def test_kernels_that_others_do_not_launch_are_a_larger_share() -> None:
    assert advice(uneven("k:other:sort @0 205-655", "k:add:elementwise @0 205-255", 655)) == (
        "Share the work evenly: 100 % of what it computes longer is in sort kernels like `other` (launches an "
        f"iteration: 1, on others 0). {MORE_LAUNCHES}"
    )


def test_two_kernels_are_named_with_their_shares() -> None:
    own = "k:bag:embedding @0 205-505, k:tail:sort @0 505-665"
    advised = advice(uneven(own, "k:bag:embedding @0 205-230, k:tail:sort @0 230-255", 665))
    assert "67 % of what it computes longer is in `bag` (the same" in advised
    assert ", 33 % in `tail` (the same launches and grids, 6.4 times as long). " in advised


def test_a_gpu_on_which_all_kernels_take_longer_is_slower() -> None:
    """Five kernels take 1.2 ms on rank 1, and 0.5 ms on others."""
    slow = [f"k:{n}:{n} @0 {5 + 120 * i}-{125 + 120 * i}" for i, n in enumerate("abcde")]
    usual = [f"k:{n}:{n} @0 {5 + 50 * i}-{55 + 50 * i}" for i, n in enumerate("abcde")]
    lines = [f"{n}| {', '.join(slow if n == 1 else usual)}, n @10 {605 if n == 1 else 255}-610" for n in range(3)]
    found = findings_of(program("\n".join(f"{line}, wait 20-611" for line in lines)))
    assert "slow-gpu" in found
    assert found["imbalance"].advice.startswith("Nearly all of its kernels take 2.40 times as long as the same ones on")


@pytest.mark.parametrize(
    "run",
    [
        # Three kernels take longer, and the others as long: neither a slower GPU nor one with other data.
        uneven(
            "k:a:a @0 205-405, k:b:b @0 405-605, k:c:c @0 605-805",
            "k:a:a @0 205-222, k:b:b @0 222-239, k:c:c @0 239-255",
            805,
        ),
        # There is nothing but this kernel to tell a slower GPU from other data.
        program("0| k @0 5-300, n @10 300-905, wait 20-906\n1| k @0 5-900, n @10 900-905, wait 20-906"),
    ],
    ids=["three kernels", "one kernel"],
)
def test_what_cannot_be_told_is_left_to_a_look(run: Run) -> None:
    assert advice(run).endswith(DATA_OR_SPEED)
    # It would contradict that.
    assert "Share the work evenly" not in advice(run)


def test_without_grids_there_is_nothing_to_compare() -> None:
    unknown = LONG._replace(work=LONG.work.with_columns(shape=pl.lit(None, pl.Int64)))
    assert advice(unknown) == f"Share the work evenly: compare its kernels with another's. {UNDECIDED}"


@pytest.mark.parametrize(("own", "said"), [(4_000_000, True), (1_050_000, False)])
def test_a_rank_that_receives_more_bytes_is_told(own: int, said: bool) -> None:
    """All parts of the exchange are received: those of rank 1 have more bytes than 1 MB."""
    bytes_ = pl.when(pl.col("task") == 1).then(own).otherwise("bytes")
    received = LONG._replace(parts=LONG.parts.with_columns(bytes=bytes_, kind=pl.lit(RECEIVE, pl.UInt8)))
    assert advice(received).endswith(" It receives 4.0 times the bytes of others.") == said


def test_gpus_of_one_process_are_compared_with_each_other() -> None:
    found = findings_of(of_processes(LONG, 3))["gpu-imbalance"]
    assert found.advice == advice(LONG)

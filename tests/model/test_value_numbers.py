"""Numbers of labels that are the same in every trace."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nsys2prv.intervals.classes import classify_kernels, family_of
from nsys2prv.model.palette import BEYOND, FAMILY_BLOCKS, UNKNOWN_BLOCK, Color, ValueBlock, class_block, operation_block
from nsys2prv.model.value_numbers import stable_numbers

KNOWN = Path(__file__).parents[1] / "intervals" / "kernel_classes.tsv"
SMALL = ValueBlock("A", Color(0, 0, 0), 1000, 4)


def of_small(text: str) -> ValueBlock:
    return SMALL


def test_a_number_stands_on_the_text_alone() -> None:
    """Traces of all versions have this number."""
    text, gemm = "GEMM tn 128x128x64", FAMILY_BLOCKS[0]
    for others in ((), ("GEMM", "attention forward"), ("zz", "GEMM nn 64x64x64")):
        assert stable_numbers([text, *others], class_block)[text] == 4659
    assert stable_numbers(["GEMM", "my own"], class_block)["GEMM"] == gemm.first
    assert stable_numbers(["my own"], class_block)["my own"] in UNKNOWN_BLOCK


def test_the_order_of_texts_changes_nothing() -> None:
    texts = [f"GEMM {n}" for n in range(500)]
    assert stable_numbers(texts, class_block) == stable_numbers(texts[::-1], class_block)


def test_numbers_are_distinct_where_texts_want_the_same() -> None:
    """A block with three places after that of its name: five further texts, two of them beyond all blocks."""
    numbers = stable_numbers([f"A {c}" for c in "abcde"], of_small)
    assert sorted(numbers.values()) == [1001, 1002, 1003, BEYOND, BEYOND + 1]
    assert stable_numbers(["A", *numbers], of_small) == {"A": 1000} | numbers


def test_known_classes_never_want_the_same_number() -> None:
    """So their numbers are the same in every trace, whatever else it holds."""
    names = pl.read_csv(KNOWN, separator="\t", quote_char=None, infer_schema=False)
    classes = set(classify_kernels(names.select("short", "demangled"))["class"])
    nccl = {name for name in names["short"].drop_nulls() if name.startswith("nccl")}
    for texts, block_of in ((classes | {family_of(c) for c in classes}, class_block), (nccl, operation_block)):
        together = stable_numbers(texts, block_of)
        assert together == {text: stable_numbers([text], block_of)[text] for text in texts}

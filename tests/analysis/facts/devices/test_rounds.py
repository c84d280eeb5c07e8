"""Loops that launch the same few kernels in each round are named, with what to do about them."""

from __future__ import annotations

import random
import string
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from programs import analysis_of, program

from nsys2prv.analysis.facts.case import case_of
from nsys2prv.analysis.facts.devices.rounds import advice_on_rounds
from nsys2prv.analysis.facts.find_rounds import Rounds, find_rounds
from nsys2prv.analysis.facts.framework import Framework
from nsys2prv.analysis.frames import TEXT


def found_in(kernels: str, groups: str | None = None) -> list[Rounds]:
    """Return the rounds of kernels that letters name, in groups that letters name."""
    codes, group = (np.frombuffer(text.encode(), dtype=np.uint8) for text in (kernels, groups or "x" * len(kernels)))
    return find_rounds(codes, group)


def test_each_kernel_is_in_the_shortest_round() -> None:
    assert found_in("xy" + "abc" * 120 + "zz" + "d" * 100 + "e") == [Rounds(1, 100, 364), Rounds(3, 360, 2)]


def test_the_last_round_may_be_cut() -> None:
    assert found_in("abc" * 120 + "ab") == [Rounds(3, 362, 0)]


def test_rounds_are_many_and_short() -> None:
    assert found_in("abc" * 99) == []
    assert found_in(string.printable[:33] * 120) == []
    assert found_in("") == []
    assert found_in(string.printable[:32] * 120) == [Rounds(32, 3840, 0)]


def test_rounds_do_not_reach_into_the_next_group() -> None:
    assert found_in("abc" * 120, "x" * 180 + "y" * 180) == []
    assert found_in("abc" * 240, "x" * 360 + "y" * 360) == [Rounds(3, 360, 0), Rounds(3, 360, 360)]


def test_kernels_in_any_order_have_no_rounds() -> None:
    letters = random.Random(0).choices("abc", k=5000)
    assert found_in("".join(letters)) == []


def test_the_iteration_of_a_round_is_that_which_launched_it() -> None:
    """The device of rank 1 is half an iteration behind its host, and that of rank 0 is not."""
    lines = []
    for rank, behind in ((0, 1), (1, 500)):
        kernels = (f"k:{name}:GEMM @{at} {at + behind}-{at + behind + 2}" for at, name in _named(220))
        lines.append(f"{rank}| {', '.join(kernels)}")
    case = case_of(analysis_of(program("\n".join(lines))))
    assert advice_on_rounds(case, 220).startswith("220 of the kernels repeat short sequences, such as 2 kernels")


def _named(count: int) -> list[tuple[int, str]]:
    """Return when kernels of a loop are launched, and their names in turn."""
    return [(4 * n, ("cell", "gate")[n % 2]) for n in range(count)]


@pytest.mark.parametrize(("rounds", "others", "named"), [(110, 100, True), (90, 100, False), (110, 800, False)])
def test_a_loop_is_named_where_it_launches_many_kernels(rounds: int, others: int, named: bool) -> None:
    names = ["cell:GEMM", "gate:softmax"] * rounds + [f"k{n}:GEMM" for n in range(others)]
    times = [8 * n for n in range(len(names))]
    every = 8 * len(names) + 10
    kernels = ", ".join(f"k:{name} @{at} {at + 1}-{at + 3}" for name, at in zip(names, times, strict=True))
    found = analysis_of(program(f"0| {kernels}", every=every)).findings
    (advice,) = [one.advice for one in found if one.id in ("launch-bound", "host-bound")]
    said = "220 of the kernels repeat short sequences, such as 2 kernels (`gate` is the longest) 110 times in a row: "
    assert (said in advice) == named


@pytest.mark.parametrize(
    ("name", "says"), [("elemWiseRNNcell", "they are steps of cuDNN's recurrent layers: "), ("cell", "where a round ")]
)
def test_the_steps_of_a_recurrent_layer_are_no_loop_of_the_program(name: str, says: str) -> None:
    kernels = ", ".join(f"k:{what.replace('cell', name)}:GEMM @{at} {at + 1}-{at + 3}" for at, what in _named(220))
    advice = advice_on_rounds(case_of(analysis_of(program(f"0| {kernels}"))), 220)
    assert f"110 times in a row: {says}" in advice


@pytest.mark.parametrize(
    ("framework", "says"),
    [(Framework.PYTORCH, "they are reductions, as of the norm"), (Framework.CUDA, "where a round ")],
)
def test_norms_of_single_tensors_are_no_rows_of_a_loop(framework: Framework, says: str) -> None:
    kernels = ", ".join(f"k:reduce:reduction @{at} {at + 1}-{at + 3}" for at, _ in _named(220))
    case = replace(case_of(analysis_of(program(f"0| {kernels}"))), framework=framework)
    assert f"such as `reduce` 220 times in a row: {says}" in advice_on_rounds(case, 220)


@pytest.mark.parametrize(("where", "says"), [("jit(f)/while/body", "XLA runs them as a loop"), ("jit(f)", "where a ")])
def test_a_loop_of_xla_is_in_one_function_already(where: str, says: str) -> None:
    """Each kernel has a range of XLA, with the operation that launches it."""
    thunks = [f"Thunk#name={where}/dot# {at}-{at + 1}" for at, _ in _named(220)]
    kernels = [f"k:gemm_fusion_{name}:GEMM @{at} {at + 1}-{at + 3}" for at, name in _named(220)]
    run = program(f"0| {', '.join([*thunks, *kernels])}")
    of_xla = run.work.with_columns(name=pl.col("name").cast(pl.String).str.replace_all(" ", "_").cast(TEXT))
    advice = advice_on_rounds(case_of(analysis_of(run._replace(work=of_xla))), 220)
    assert f"110 times in a row: {says}" in advice

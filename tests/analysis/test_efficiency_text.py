"""The line of efficiency: factors have one name each, those that cannot apply are left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import GOOD, analysis_of, program

import nsys2prv
from nsys2prv.analysis.sentences import communication_text
from nsys2prv.analysis.shown_tables import EFFICIENCY, with_communication
from nsys2prv.cli.analysis_text import text_of
from nsys2prv.cli.first_screen import verdict_of
from nsys2prv.page.head import verdict
from nsys2prv.page.page import page
from nsys2prv.page.tables import tables

# Rank 1 comes late to each operation, which lasts 50.
LATE_RANK = "0| k @0 5-400, n @400 405-900\n1| k @0 5-400, n @850 850-900"
SLOW_TRANSFER = "0| k @0 5-400, n @400 405-900\n1| k @0 5-400, n @400 405-900"


@pytest.mark.parametrize(
    ("launches", "parts"),
    [(LATE_RANK, "waiting for late ranks 50.0 x transfers 88.8"), (SLOW_TRANSFER, "waiting for late ranks 100.0 x ")],
    ids=["late rank", "slow transfer"],
)
def test_communication_is_waiting_for_late_ranks_or_transfers(launches: str, parts: str) -> None:
    found = analysis_of(program(launches))
    told = f"  communication {100 * found.headline_efficiency.communication:.1f} = {parts}"
    assert told in verdict_of(found, [Path("run")])
    assert told.strip() in verdict(found)


@pytest.mark.parametrize(("second", "told"), [("c @400 405-990", True), ("k @400 405-410", False)])
def test_a_gpu_that_computes_nothing_is_named(second: str, told: bool) -> None:
    """As one where JAX made a context and nothing else."""
    found = analysis_of(program(f"0| k @0 5-990\n1| {second}"))
    line = "GPU 1 of rank 1 computes nothing in the window, which lowers the load balance"
    assert (f"  {line}\n" in verdict_of(found, [Path("run")])) == told
    assert (line in verdict(found)) == told


def test_what_no_rank_waits_for_is_not_taken_apart() -> None:
    assert [*communication_text(analysis_of(program("0| k @0 5-400, c @400 405-900")))] == []
    assert [*communication_text(analysis_of(program("0| k @0 5-900\n1| k @0 5-900")))] == []


def test_the_page_takes_apart_what_the_terminal_does(saxpy: Path) -> None:
    """Copies wait for no rank, but late ranks are waited for."""
    said = "waiting for late ranks x transfers"
    for found, apart in ((nsys2prv.analyze(saxpy), False), (analysis_of(program(LATE_RANK)), True)):
        assert found.communication_factors
        keys = [table.key for table in tables(found, found.as_json())]
        assert (said in text_of(found, held=False, chosen=["efficiency"]), "factors" in keys) == (apart, apart)


def test_a_single_gpu_has_no_load_balance_and_one_name_for_its_copies() -> None:
    one = analysis_of(program("0| k @0 5-900"))
    screen = verdict_of(one, [Path("run")])
    assert "load balance" not in screen
    assert " = copies 100.0 x orchestration " in screen
    assert "load balance" not in verdict(one)
    table = text_of(one, held=False, chosen=["efficiency"])
    assert "x copies" in table
    assert "communication" not in table.lower()
    assert "x copies" in page(one, "one")
    several = text_of(analysis_of(program(GOOD)), held=False, chosen=["efficiency"])
    assert "x communication" in several
    assert with_communication(EFFICIENCY, "communication") == EFFICIENCY

"""Tables that the terminal and the page both show: one declaration of heads and units."""

from __future__ import annotations

from pathlib import Path

import pytest
from analysis_cases import SAMPLES

import nsys2prv
from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.shown_tables import (
    CONTENTION,
    EFFICIENCY,
    FINDINGS,
    LAUNCHES,
    ROOFLINE,
    WHAT_IF,
    finding_rows,
    with_percent,
)
from nsys2prv.cli.analysis_text import sections
from nsys2prv.cli.text_table import ALL_RANKS, section
from nsys2prv.model.units import FACTOR, NUMBER
from nsys2prv.page.tables import tables

NCU = Path(__file__).parents[1] / "data" / "ncu"
# Heads of the terminal alone: JSON has no measured time beside predictions, and the kernels of the critical path apart.
ALONE = {"What if": {"iteration ms"}, "Critical path": {"kernels"}}


def analysed(name: str) -> Analysis:
    if name != "ncu":
        return nsys2prv.analyze(SAMPLES / name)
    profile = nsys2prv.RunOptions(ncu=(nsys2prv.ProfileFile(NCU / "steps.csv"),))
    return nsys2prv.analyze(NCU / "gpt.sqlite", options=profile)


@pytest.mark.parametrize("name", ["gpt-ddp", "mpi-halo", "ncu"])
def test_heads_of_the_terminal_are_those_of_the_page(name: str) -> None:
    found = analysed(name)
    pages = {table.title: {column.title for column in table.columns} for table in tables(found, found.as_json())}
    compared = set()
    for _, title, heads, rows in sections(found, held=False):
        of = title.removesuffix(ALL_RANKS)
        if rows and of in pages and not of.startswith("Who waits for whom"):
            assert {*heads} - ALONE.get(of, set()) <= pages[of], title
            compared.add(of)
    assert len(compared) >= 15
    assert (ROOFLINE.title in compared) == (name == "ncu")


def test_a_table_has_heads_and_units_of_its_own() -> None:
    assert [EFFICIENCY.head(c) for c in ("name", "window_ns", "transfer")] == ["of", "window ms", "transfer"]
    assert [LAUNCHES.head(c) for c in ("wait_p90_ns", "call_ns")] == ["to start p90 us", "calls ms"]
    assert [table.unit("transfer", whole=False) for table in (EFFICIENCY, CONTENTION)] == [FACTOR, NUMBER]


def test_a_section_has_the_chosen_columns_as_text() -> None:
    rows = [
        {"change": "host=0", "iteration_ns": 1_500_000, "gain": 0.25, "other": 1},
        {"change": None, "gain": -0.0001},
    ]
    assert section(WHAT_IF, ("change", "iteration_ns", "gain"), rows, " now", width=5) == (
        "what-if",
        "What if now",
        ["change", "predicted ms", "gain %"],
        [["ho...", "1.500", "25.0"], ["", "", "0.0"]],
    )
    assert section(LAUNCHES, ("rank", "count"), [{"rank": None, "count": 7}])[3] == [["all", "7"]]


def test_findings_that_cost_an_iteration_nothing_have_no_cost() -> None:
    """But pauses, whose share is that of the run, have their time in it."""
    found = [
        {"id": "imbalance", "cost_ns": 1_500_000, "share": 0.25, "evidence": {}},
        {"id": "pauses", "cost_ns": 0, "share": 0.2, "evidence": {"pauses": 2, "pauses_ns": 600_000_000}},
        {"id": "late-capture", "cost_ns": 0, "share": 0.0, "evidence": {}},
    ]
    cells = section(FINDINGS, ("id", "cost_ns", "share"), finding_rows(found))[3]
    assert cells == [["imbalance", "1.500", "25.0"], ["pauses", "600.000", "20.0"], ["late-capture", "", ""]]


def test_percent_of_a_column_or_of_a_number() -> None:
    rows = [{"part": 1, "whole": 4}, {"part": 1, "whole": 0}]
    assert [row["percent"] for row in with_percent(rows, "percent", "part", "whole")] == [25, None]
    assert [row["percent"] for row in with_percent(rows, "percent", "part", 10)] == [10, 10]
